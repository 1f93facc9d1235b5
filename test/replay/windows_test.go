package replay

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// detection is an entry of expected.json: a published detection and the recording that should trigger it, once.
type detection struct {
	Rule  string `json:"rule"`
	Zip   string `json:"zip"`
	Key   string `json:"key"`
	Steps []struct {
		Line int    `json:"line"`
		EID  int    `json:"eid"`
		Time string `json:"t"`
		Host string `json:"host"`
	} `json:"steps"`
	Faithful       bool `json:"faithful"`
	ArrivalMatches int  `json:"arrival_matches"`
}

// ours are the rules that say the same as a detection, and the steps of its two events.
var ours = map[string]struct {
	rule  string
	steps [2]string
	rec   recording
	// strict is the rule of which this one is a variant; it must find nothing.
	strict string
}{
	"lateral_movement_powershell_remoting_target":      {"remote-powershell-session", [2]string{"connection", "process"}, psremoting, ""},
	"lateral_movement_executable_tool_transfer_smb":    {"tool-copied-over-smb.any-user", [2]string{"connection", "file"}, dllHijack, "tool-copied-over-smb"},
	"VARIANT register_server any-destination":          {"regsvr32-connects.anywhere", [2]string{"process", "connection"}, regsvr32, "regsvr32-connects"},
	"lateral_movement_remote_services":                 {"service-started-remotely", [2]string{"call", "program"}, psexec, ""},
	"lateral_movement_remote_service_installed_winlog": {"service-installed-after-logon", [2]string{"logon", "service"}, psexec, ""},
	"persistence_remote_password_reset":                {"password-reset-after-logon.any-account", [2]string{"logon", "reset"}, addUser, "password-reset-after-logon"},
	"defense_evasion_suspicious_wmi_script":            {"wmic-runs-script", [2]string{"process", "library"}, wmicScript, ""},
}

func TestDetections(t *testing.T) {
	var figures []detection
	expected(t, "otrf", &figures)
	if len(figures) != len(ours) {
		t.Errorf("%d figures, %d rules for them", len(figures), len(ours))
	}
	for _, d := range figures {
		t.Run(d.Rule, func(t *testing.T) {
			our, known := ours[d.Rule]
			if !known {
				t.Fatal("no rule for it")
			}
			if !strings.HasSuffix(our.rec.paths[0], d.Zip+".zip") || d.Faithful != (our.strict == "") {
				t.Fatalf("the figure is of %s, faithful %v", d.Zip, d.Faithful)
			}
			f := our.rec.run(t, 0)
			alerts := f.of(our.rule)
			if len(alerts) != 1 {
				t.Fatalf("%d alerts, want 1: %s", len(alerts), describe(alerts))
			}
			text := our.rec.content(t)
			for i, step := range our.steps {
				events := taken(alerts[0], step)
				if len(events) != 1 {
					t.Fatalf("step %s took %d events", step, len(events))
				}
				at := line(text, events[0].Position.Offset)
				eid, _ := record(t, text, events[0].Position.Offset)["EventID"].(float64)
				if want := d.Steps[i]; at != want.Line || int(eid) != want.EID || !sameTime(events[0].Time.Std(), want.Time) {
					t.Errorf("step %s took line %d (%v) at %s, want %+v", step, at, eid, events[0].Time, want)
				}
			}
			for _, k := range alerts[0].Key {
				if !strings.Contains(d.Key, k.Value.AsString()) {
					t.Errorf("key %v, want %s", alerts[0].Key, d.Key)
				}
			}
			if our.strict != "" && len(f.of(our.strict)) > 0 {
				t.Errorf("the rule without the variant finds %s", describe(f.of(our.strict)))
			}
		})
	}
}

// sameTime compares with a figure, which gives the event's own word: UTC with milliseconds, or local whole seconds.
func sameTime(got time.Time, want string) bool {
	if strings.Contains(want, ".") {
		return got.Format("2006-01-02 15:04:05.000") == want
	}
	zone, err := time.LoadLocation("America/New_York")
	return err == nil && got.In(zone).Format(time.DateTime) == want
}

// The way a user finds the lateness: a first run says how far behind events come, and with this as the lateness nothing is
// late and every detection fires. Without any lateness all seven are silent: a third of the events, or more, is late.
func TestLatenessFromSummary(t *testing.T) {
	for name, our := range ours {
		rec := our.rec
		rec.lateness = 0
		first := rec.run(t, 0)
		if s := first.summary.Streams[0]; s.Late*4 < s.Events || len(first.of(our.rule)) != 0 {
			t.Errorf("%s without lateness: %d of %d late, %d alerts", name, s.Late, s.Events, len(first.of(our.rule)))
		}
		rec.lateness = first.summary.Streams[0].Behind
		second := rec.run(t, 0)
		if s := second.summary.Streams[0]; s.Late != 0 || len(second.of(our.rule)) != 1 {
			t.Errorf("%s with a lateness of %v: %d late, %d alerts", name, rec.lateness, s.Late, len(second.of(our.rule)))
		}
	}
}

// Taken in the order of arrival, four of the seven stay silent: their second event arrives before their first. A time that
// says when a line was written is what a user gets who names the wrong field.
func TestDetectionsInArrivalOrder(t *testing.T) {
	var figures []detection
	expected(t, "otrf", &figures)
	silent := 0
	for _, d := range figures {
		our := ours[d.Rule]
		rec := our.rec
		rec.text = numbered(rec.content(t))
		rec.time = []string{"arrived,unix_ms"}
		n := len(rec.run(t, 0).of(our.rule))
		if n != d.ArrivalMatches {
			t.Errorf("%s: %d alerts in the order of arrival, want %d", d.Rule, n, d.ArrivalMatches)
		}
		if n == 0 {
			silent++
		}
	}
	if silent != 4 {
		t.Errorf("%d stay silent", silent)
	}
}

// numbered gives each line its number as the time of its arrival.
func numbered(text []byte) []byte {
	var out bytes.Buffer
	n := 0
	for line := range bytes.Lines(text) {
		n++
		fmt.Fprintf(&out, `{"arrived":%d,%s`, n, bytes.TrimPrefix(line, []byte{'{'}))
	}
	return out.Bytes()
}
