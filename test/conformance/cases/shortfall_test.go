package cases

// shortfall is a need that the language cannot say: what the nearest rule gives, and what it would take.
type shortfall struct {
	alerts  []string
	because string
}

var shortfalls = map[string]shortfall{
	"u073-every-morning": {
		alerts:  []string{"1d9h5m time s3"},
		because: "a deadline at a time of day that needs no event to begin with cannot be said: windows and absences count from events. The nearest rule warns five minutes after sensor 1, and not at all on a day without it. The word that is missing is a calendar: `expect: {between: [08:00, 12:00], tz}`",
	},
	"u028-spike-against-before": {
		alerts:  []string{"11m match p1,p2,p3,p4,d1", "15m match c1,c2,c3,c4,c5"},
		because: "the number of events before a match's first one cannot be asked: an absence at the start tells none from some, not one from four. The nearest rule has only the absolute part, so what was always busy counts as a spike",
	},
}
