package eventlog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/cep/source/eventlog"
)

// sole is an event whose id stands for its data and no other.
func sole(id, data string) eventlog.Event {
	return eventlog.Event{ID: id, Data: []byte(data), Sole: true}
}

// What an id stands for is remembered as long as the id is: while the first event with it is on its way, behind it, after a
// restart, and after its segment has gone. With other data nothing of what it comes with is taken.
func TestReused(t *testing.T) {
	c := eventlog.Config{Dir: t.TempDir(), Max: eventlog.MaxMin}
	l := open(t, c)
	add := func(want string, events ...eventlog.Event) {
		t.Helper()
		a, err := l.Append(t.Context(), events)
		got := fmt.Sprint(a.Accepted, a.Duplicates, a.Differing)
		switch {
		case errors.Is(err, eventlog.ErrReused):
			got = "reused"
		case err != nil:
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	asked := 0
	reused := func() {
		t.Helper()
		asked++
		add("0 2 0", sole("a", "1"), sole("b", "2"))
		add("0 1 0", sole("b", "2"))
		add("reused", sole("a", "2"))
		add("reused", sole("a", ""))
		add("reused", sole(fmt.Sprint("new", asked), "3"), sole("a", "1"), sole("b", "1"))
		add("1 0 0", sole(fmt.Sprint("new", asked), "4")) // which was not taken by the one before
		add("0 2 1", eventlog.Event{ID: "a", Data: []byte("1")}, eventlog.Event{ID: "b", Data: []byte("1")})
	}
	add("2 0 0", sole("a", "1"), sole("b", "2"))
	reused()
	if s := l.Status(); s.Reused != 5 || s.Differing != 1 || s.Accepted != 3 || s.Duplicates != 5 {
		t.Errorf("%+v", s)
	}
	shut(t, l)
	l = open(t, c)
	reused()
	for range 4 {
		appendAll(t, l, strings.Repeat("x", 700_000))
	}
	if err := l.Trim(l.Status().End); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		reused()
		shut(t, l)
		l = open(t, c)
	}
	// A log that is full says it all the same: waiting would help nobody.
	large := eventlog.Event{Data: []byte(strings.Repeat("x", 1_000_000))}
	for err := error(nil); err == nil; {
		_, err = l.Append(t.Context(), []eventlog.Event{large})
	}
	add("reused", sole("a", strings.Repeat("y", 1_000_000)))
	l.End()
	if _, err := l.Append(t.Context(), []eventlog.Event{sole("a", "2")}); !errors.Is(err, eventlog.ErrEnded) {
		t.Errorf("behind the end: %v", err)
	}
	shut(t, l)
}

// Of those who come at once with one id and different data one is taken, and the others are told.
func TestReusedAtOnce(t *testing.T) {
	l := open(t, eventlog.Config{Dir: t.TempDir()})
	defer shut(t, l)
	const writers = 16
	errs := make(chan error, writers)
	for i := range writers {
		go func() {
			_, err := l.Append(t.Context(), []eventlog.Event{sole("id", fmt.Sprint(i))})
			errs <- err
		}()
	}
	taken := 0
	for range writers {
		switch err := <-errs; {
		case err == nil:
			taken++
		case !errors.Is(err, eventlog.ErrReused):
			t.Error(err)
		}
	}
	if s := l.Status(); taken != 1 || s.Accepted != 1 || s.Reused != writers-1 {
		t.Errorf("%d were taken; %+v", taken, s)
	}
}

// Of a batch that a crash has cut, what is there is known by its data too, and the rest is taken when the batch comes again.
func TestReusedBehindATornBatch(t *testing.T) {
	dir := t.TempDir()
	l := open(t, eventlog.Config{Dir: dir})
	batch := []eventlog.Event{sole("0", "zero"), sole("1", "one"), sole("2", "two")}
	if _, err := l.Append(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	shut(t, l)
	path := segments(t, dir)[0]
	whole := readFile(t, path)
	writeFile(t, path, whole[:len(whole)-1])
	l = open(t, eventlog.Config{Dir: dir})
	defer shut(t, l)
	if r := l.Report(); r.Records != 2 || r.Torn == 0 {
		t.Fatalf("%+v", r)
	}
	other := []eventlog.Event{batch[0], sole("1", "other"), batch[2]}
	if a, err := l.Append(t.Context(), other); !errors.Is(err, eventlog.ErrReused) {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := l.Append(t.Context(), batch); err != nil || a.Accepted != 1 || a.Duplicates != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	if got := texts(everything(t, l)); got != "zero one two" {
		t.Error(got)
	}
}

// The file of ids does not grow by being written again: an id that is in the file and in a segment is one.
func TestIDsAreSavedOnce(t *testing.T) {
	c := eventlog.Config{Dir: t.TempDir(), Max: eventlog.MaxMin, IDWindow: time.Hour}
	size := 0
	for i := range 4 {
		l := open(t, c)
		for range 2 { // segments that go, before the one that stays
			appendAll(t, l, strings.Repeat("x", 600_000))
		}
		for j := range 10 {
			if _, err := l.Append(t.Context(), []eventlog.Event{sole(fmt.Sprint(j), "data")}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Trim(l.Status().End); err != nil {
			t.Fatal(err)
		}
		n := len(readFile(t, c.Dir+"/ids"))
		if i > 0 && n != size {
			t.Errorf("the file of ids has %d bytes, and then %d", size, n)
		}
		size = n
		shut(t, l)
	}
}
