package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
)

func TestOpenStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		set := w.set(
			`{id: chain, from: auth, by: [user, port], within: 1m, after_match: none, sequence: [{step: a, where: kind == "a", times: 2..}, {step: b, where: kind == "b"}]}`,
			`{id: quiet, from: auth, by: [user], sequence: [{step: a, where: kind == "a"}, {absent: b, where: kind == "b", for: 5m}]}`)
		l := w.run(func(c *Config) { c.Rules = set })
		line := func(at int, kind, user string, port any) string {
			return fmt.Sprintf(`{"t":%d,"kind":%q,"user":%q,"port":%#v}`, at, kind, user, port)
		}
		s.write("0", line(1, "a", "x", 22), line(2, "a", "x", 22), line(3, "a", "y", "22"), line(4, "a", "z", 80), line(30, "c", "c", 1))
		settle(5 * time.Second)
		page, err := l.OpenStarts(t.Context(), OpenQuery{Rule: "chain", Key: []string{"x", "22"}})
		if err != nil {
			t.Fatal(err)
		}
		id := l.config.Partitions.Get("auth", "0")
		at := func(offsets ...int64) (list []cep.Position) {
			for _, o := range offsets {
				list = append(list, cep.Position{Partition: id, Offset: o})
			}
			return list
		}
		until := 61 * cep.Second
		key := []cep.Named{{Name: "user", Value: cep.String("x")}, {Name: "port", Value: cep.Int(22)}}
		want := OpenStart{
			Rule: "chain", Fingerprint: set.Rules[0].Fingerprint, Key: key, Since: cep.Time(cep.Second), Until: cep.Time(until),
			Runs: []OpenRun{
				{Taken: []OpenStep{{"a", 2, at(0, 10)}}, Waits: []string{"a"}, Until: cep.Time(until)},
				{Taken: []OpenStep{{"a", 2, at(0, 10)}}, Waits: []string{"b"}, Until: cep.Time(until)},
			},
		}
		if len(page.Starts) != 2 || page.Next != "" {
			t.Fatalf("%+v", page)
		}
		slices.SortFunc(page.Starts[0].Runs, func(a, b OpenRun) int { return strings.Compare(a.Waits[0], b.Waits[0]) })
		equal := cmp.Comparer(func(a, b cep.Value) bool { return cep.Equal(a, b) })
		if diff := cmp.Diff(want, page.Starts[0], equal, cmp.Comparer(func(a, b *cep.Partition) bool { return a == b })); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		var users []string
		for q := (OpenQuery{Rule: "quiet", Limit: 2}); ; {
			page, err := l.OpenStarts(t.Context(), q)
			if err != nil || len(page.Starts) > 2 {
				t.Fatalf("%+v, %v", page, err)
			}
			for _, s := range page.Starts {
				users = append(users, fmt.Sprint(s.Key[0].Value.AsString(), s.Runs[0].Waits, s.Runs[0].Absence, s.Until.Std().Unix()))
			}
			if q.After = page.Next; page.Next == "" {
				break
			}
		}
		if want := []string{"x[b] true 301", "x[b] true 302", "y[b] true 303", "z[b] true 304"}; !slices.Equal(users, want) {
			t.Errorf("%q", users)
		}
		for _, q := range []struct {
			query OpenQuery
			want  error
		}{
			{OpenQuery{Rule: "none"}, ErrNoRule},
			{OpenQuery{Rule: "chain", Key: []string{"x"}}, ErrKey},
			{OpenQuery{Rule: "chain", Key: []string{"x", ""}}, ErrKey},
			{OpenQuery{Rule: "chain", After: "###"}, ErrCursor},
			{OpenQuery{Rule: "chain", After: "AgE"}, ErrCursor},
		} {
			if _, err := l.OpenStarts(t.Context(), q.query); !errors.Is(err, q.want) {
				t.Errorf("%+v: %v", q.query, err)
			}
		}
		l.crash()
		_ = l.wait()
	})
}

func FuzzPlace(f *testing.F) {
	f.Add("")
	f.Add("AQEDYWJjBQ")
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := readPlace(cursor)
		if err != nil || cursor == "" {
			return
		}
		again, err := readPlace(appendPlace(p))
		if err != nil || again != p {
			t.Errorf("%+v became %+v: %v", p, again, err)
		}
	})
}
