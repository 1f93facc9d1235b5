package main

import (
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	tab := table{head: []string{"rule", "n", "ü"}}
	tab.add("a", "1", "x")
	tab.add("long", "1,234", "ÄÖÜ")
	var b strings.Builder
	tab.write(newPrinter(&b), "> ")
	want := "" +
		"> rule      n  ü\n" +
		"> a         1  x\n" +
		"> long  1,234  ÄÖÜ\n"
	if b.String() != want {
		t.Errorf("got\n%sexpected\n%s", b.String(), want)
	}
	b.Reset()
	tab.write(&printer{palette: palette{on: true}, w: &b}, "")
	if !strings.HasPrefix(b.String(), "\x1b[2m") {
		t.Errorf("the head is not faint: %q", b.String())
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %s", n, got)
		}
	}
	if plural(1, "rule") != "1 rule" || plural(0, "rule") != "0 rules" || plural(2000, "rule") != "2,000 rules" {
		t.Error("plural")
	}
}

func TestRoundUp(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		1:                                time.Second,
		30 * time.Second:                 30 * time.Second,
		90*time.Second + 1:               91 * time.Second,
		9*time.Minute + 39*time.Second:   10 * time.Minute,
		25*time.Hour + time.Millisecond:  26 * time.Hour,
		2 * time.Minute:                  2 * time.Minute,
		2*time.Minute + time.Millisecond: 3 * time.Minute,
	} {
		if got := roundUp(d); got != want || got < d {
			t.Errorf("roundUp(%v) = %v", d, got)
		}
	}
}

func TestBuild(t *testing.T) {
	b := buildOf(&debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	})
	if b.Version != "v1.2.3" || b.Commit != "abc" || !b.Modified || b.Language != 1 {
		t.Errorf("%+v", b)
	}
	if b := buildOf(nil); b.Version != "dev" || b.Go == "" {
		t.Errorf("%+v", b)
	}
}
