package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// silencedSet is a rule of one meaning or another, and a rule over its alerts, with a silence for a user until a time.
func silencedSet(fingerprint string, silences ...*rules.Silence) *rules.Set {
	r := rule("r", 100, element{from: "auth", kind: "a" + fingerprint}, element{from: "auth", kind: "b"})
	r.Fingerprint, r.Silences = fingerprint, silences
	set := setOf(r, over(rule("up", 0, element{from: "alerts", kind: "r"}), 1, "r"))
	set.Silences = silences
	return set
}

func silenceOf(user string, from, until cep.Time) *rules.Silence {
	return &rules.Silence{ID: "s", Rules: []string{"r"}, Key: []patterns.SilencedPart{{Name: "user", Value: cep.String(user)}}, From: from, Until: until}
}

// A silence holds from the swap on, for what older versions of the rule find too, and not a moment longer than it stands in
// the set. Rules over alerts see what it holds back. Where event time has passed its end, that is said.
func TestSilences(t *testing.T) {
	r := newReplayable(t, silencedSet("1"), 1, engine.Stream{Name: "auth"})
	offset := int64(-1)
	take := func(at cep.Time, kind, user string) {
		offset++
		r.take(input{partition: auth0, time: at, offset: offset, values: ev(auth0, at, kind, user).values})
	}
	for i, user := range []string{"u", "v", "w"} {
		take(cep.Time(i), "a1", user)
	}
	take(3, "b", "w")
	silence := silenceOf("u", cep.BeforeAll, 30)
	r.goOn(t, silencedSet("2", silence)) // two starts drain
	take(10, "b", "u")
	take(11, "b", "v")
	take(12, "a2", "u")
	take(13, "b", "u")
	take(29, "x", "u")
	if s := r.Summary(); s.Rules[0].Silenced != 2 || s.Rules[0].Suppressed != 0 || len(s.Silences) != 1 || s.Silences[0].Over {
		t.Errorf("%+v", s)
	}
	take(30, "a2", "u")
	take(32, "x", "u")
	if s := r.Summary(); len(s.Silences) != 1 || !s.Silences[0].Over {
		t.Errorf("silences %+v at 32", s.Silences)
	}
	take(33, "b", "u") // it is over
	r.goOn(t, silencedSet("2", silenceOf("u", 40, 50)))
	take(39, "a2", "u")
	take(41, "b", "u")
	take(42, "a2", "u")
	r.goOn(t, silencedSet("2"))
	take(43, "b", "u") // it was removed
	r.Finish(engine.ToEnd)
	var own []string
	for _, l := range r.alerts {
		if l[0] == 'r' {
			own = append(own, l)
		}
	}
	want := []string{
		"r 3 w a1=auth/0/2@2 b=auth/0/3@3", "r 11 v a1=auth/0/1@1 b=auth/0/5@11",
		"r 33 u a2=auth/0/9@30 b=auth/0/11@33", "r 43 u a2=auth/0/14@42 b=auth/0/15@43",
	}
	if d := cmp.Diff(want, own); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if s := r.Summary(); s.Rules[0].Silenced != 3 || s.Rules[1].Alerts != 7 || len(s.Silences) != 0 {
		t.Errorf("%+v", s)
	}
}

// What was silenced before a crash is counted once, and the silence holds on.
func TestSilencesAfterCrash(t *testing.T) {
	parts()
	l := newLife(t, silencedSet("1", silenceOf("u", 0, 30)), engine.Options{Batch: 1}, engine.Stream{Name: "auth"})
	for _, p := range partitions() {
		l.Open(p)
	}
	take := func(i int, at cep.Time, kind string) {
		in := ev(auth0, at, kind, "u")
		in.offset = int64(i)
		l.take(0, in)
	}
	take(0, 1, "a1")
	take(1, 2, "b")
	take(2, 3, "x")
	l.barrier()
	take(3, 4, "a1")
	l.crash(engine.Options{Batch: 1, Shards: 2}, [3]int{len(l.read[0]), len(l.read[1]), len(l.read[2])})
	take(4, 5, "b")
	take(5, 31, "x")
	take(6, 32, "a1")
	take(7, 33, "b")
	l.Finish(engine.ToEnd)
	l.barrier()
	if s := l.Summary().Rules[0]; s.Silenced != 2 || s.Alerts != 1 {
		t.Errorf("%+v", s)
	}
}
