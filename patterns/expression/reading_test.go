package expression

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cepd/cepd/cep"
)

// Of each field that is read it is known where that stands and whose it is, and of each condition what it asks of the current
// event alone.
func TestReading(t *testing.T) {
	for text, want := range map[string]string{
		`user.name == "a"`:                             `[user.name] | user.name == "a"`,
		`e["@timestamp"] != nil`:                       `[e["@timestamp"] | e["@timestamp"] != nil`,
		`own.user == ok.user`:                          `[own.user] 1:[ok.user] |`,
		`type == "x" and user == ok.user and n > 2`:    `[type] [user] 1:[ok.user] [n] | type == "x" & n > 2`,
		`(type == "x" and a == 1) or ok.b == 2`:        `[type] [a] 1:[ok.b] |`,
		`$login and price > prev.price`:                `[price] prev:[prev.price] login:[service] login:[action] | service == "sshd" & action == "login"`,
		`sum(fail, .amount) > 3 and len(fail) > 2`:     `0:[.amount] |`,
		`len(uniq(map(fail, .u.n))) > 3`:               `0:[.u.n] |`,
		`any(fail, .user == user)`:                     `0:[.user] [user] |`,
		`fail[-1].user == fail[2].ip`:                  `0:[fail[-1].user] 0:[fail[2].ip] |`,
		`any(match, .x == 1 and .step == "ok")`:        `all:[.x] |`,
		`sum(taken, .n) + n > 3`:                       `3:[.n] [n] |`,
		`any(tags, # == user)`:                         `[tags] [user] | any(tags, # == user)`,
		`let u = user.id; u > 2 and u < ok.id`:         `[user.id] 1:[ok.id] |`,
		`$key.user == "ä" and lower(b) == "x" and len`: `[b] [len] | lower(b) == "x" & len`,
		`ts(e) > ts(ok) and seen`:                      `[seen] | seen`,
	} {
		w := newWorld()
		trees := &Trees{}
		w.place.Trees, w.place.Condition = trees, true
		x := w.compile(t, text)
		reading := trees.Reading(x)
		var got, parts []string
		for _, f := range reading.Fields {
			where := text
			if f.Macro != "" {
				where = w.place.Macros[f.Macro]
			}
			s := "[" + string([]rune(where)[f.Offset:f.Offset+f.Length]) + "]"
			switch {
			case f.Prev:
				s = "prev:" + s
			case f.All:
				s = "all:" + s
			case !f.Current:
				s = fmt.Sprintf("%d:%s", f.Steps[0], s)
			case f.Macro != "":
				s = f.Macro + ":" + s
			}
			got = append(got, s)
		}
		for _, p := range reading.Parts {
			parts = append(parts, p.Text)
		}
		if s := strings.TrimRight(strings.Join(got, " ")+" | "+strings.Join(parts, " & "), " "); s != want {
			t.Errorf("%s:\n got %s\nwant %s", text, s, want)
		}
		if x.Unary && len(reading.Parts) == 0 {
			t.Errorf("%s: no part", text)
		}
	}
}

// A part is true of an event where the whole, with all else true, is.
func TestPartsAreConditions(t *testing.T) {
	w := populated()
	trees := &Trees{}
	w.place.Trees, w.place.Condition = trees, true
	x := w.compile(t, `any([1, 2], # == 2) and ok.user == "nobody" and off == true`)
	reading := trees.Reading(x)
	if len(reading.Parts) != 2 {
		t.Fatalf("%d parts", len(reading.Parts))
	}
	for i, want := range []bool{true, false} {
		w.current = object{"off": cep.Bool(false)}
		if got, err := reading.Parts[i].Test(w.set()); got != want || err != nil {
			t.Errorf("%s: %t, %v", reading.Parts[i].Text, got, err)
		}
	}
}
