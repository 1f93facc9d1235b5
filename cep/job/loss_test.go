package job

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// count returns the number of lines that hold all the words.
func (l *journal) count(words ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.lines {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

func TestLossesAreNamed(t *testing.T) {
	const line = "level=WARN msg=\"events take no part\" stream=auth"
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", `{"when":1}`, `{"when":2}`, event(10, "c", "x"))
		l := w.run()
		settle(3 * time.Second)
		if w.log.count(line) != 1 || w.log.count(line, `reason="no time"`, "total=2", "first_bad=", "no time") != 1 {
			t.Fatalf("two records without a time:\n%s", w.log)
		}
		s.write("0", event(1, "c", "x"), "{")
		settle(3 * time.Second)
		if w.log.count(line) != 3 || w.log.count(line, "reason=late", "total=1") != 1 || w.log.count(line, `reason="bad json"`, "total=1") != 1 {
			t.Fatalf("a late event, and a record that is no JSON:\n%s", w.log)
		}
		if w.log.count(line, "first_bad") != 1 {
			t.Errorf("what was wrong with the first stands beside another reason:\n%s", w.log)
		}
		for range 100 {
			s.write("0", `{"when":3}`)
			settle(time.Second)
		}
		settle(time.Minute)
		if n := w.log.count(line, `reason="no time"`); n < 3 || n > 4 || w.log.count(line, `reason="no time"`, "total=102") != 1 {
			t.Errorf("%d lines of a hundred more in two minutes:\n%s", n, w.log)
		}
		settle(5 * time.Minute)
		if w.log.count(line, "reason=late") != 1 || w.log.count(line, `reason="no time"`, "total=102") != 1 {
			t.Errorf("what does not grow is named again:\n%s", w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestLossesAtTheEnd has a job end before anybody looks a second time.
func TestLossesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", `{"when":1}`)
		s.finish()
		w.once()
		if w.log.count("level=WARN", "events take no part", "total=1", "first_bad=") != 1 {
			t.Errorf("%s", w.log)
		}
		w.once() // another process, which meets nothing new
		if w.log.count("events take no part") != 1 {
			t.Errorf("what the process before met is named again:\n%s", w.log)
		}
	})
}
