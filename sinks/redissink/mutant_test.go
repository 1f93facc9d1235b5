package redissink

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// mutants are scripts with a guard left out, each with a scenario that only the guard survives. A scenario returns what is
// wrong at the destination; with the real script nothing is.
var mutants = []struct {
	name     string
	edits    []string // old, new, old, new ...
	scenario func(t *testing.T, p redistest.Program, script *redis.Script) error
}{
	{
		"no write before the answer",
		[]string{writesFirst, ""},
		func(t *testing.T, p redistest.Program, script *redis.Script) error {
			m, r := pair(t, p)
			j := &journal{}
			s := mutated(t, m, script)
			put(t, s, j.batch(1, 0, 10))
			m.Must(t, "REPLICAOF", "127.0.0.1", "1") // demoted, and its successor lacks the ten
			_ = r
			if _, err := s.Publish(t.Context(), j.batch(1, 0, 10)); err == nil {
				return errors.New("a demoted master confirmed")
			}
			return nil
		},
	},
	{
		"no fence",
		[]string{"if now.fence ~= fence or now.owner ~= owner then return answer('FENCED') end", ""},
		func(t *testing.T, p redistest.Program, script *redis.Script) error {
			srv := redistest.Start(t, p)
			j := &journal{}
			zombie := mutated(t, srv, script)
			put(t, zombie, j.batch(1, 0, 10))
			heir := mutated(t, srv, script)
			other := j.branch(10, "other")
			_, _ = zombie.Publish(t.Context(), other.batch(1, 10, 5)) // it woke, with older rules
			if _, err := heir.Publish(t.Context(), j.batch(1, 10, 5)); err != nil {
				return fmt.Errorf("a zombie wrote: %w", err)
			}
			return nil
		},
	},
	{
		"skip over the gap",
		[]string{"if at < below then return answer('GAP') end", "", "if now.chain ~= chain then return answer('DIVERGED') end", ""},
		func(t *testing.T, p redistest.Program, script *redis.Script) error {
			m, r := pair(t, p)
			proxy, address := turn(t, m)
			j := &journal{last: 20}
			s := newSink(t, address)
			s.script = script
			pub := publish(t, s, j, func(c *sinks.PublisherConfig) { c.BatchMax = 5 })
			pub.commit(t, j, 20)
			r.CatchUp(t, m)
			r.Promote(t)
			pub.commit(t, j, 30)
			failOver(proxy, r)
			pub.commit(t, j, 40)
			if n := len(r.Stream(t, "alerts")); n != 40 {
				return fmt.Errorf("%d messages of 40", n)
			}
			return nil
		},
	},
	{
		"blind repetition",
		[]string{
			"if count > 0 and at == below + count then", "if false then", "if at > below then return answer('AHEAD') end", "",
			"if now.chain ~= chain then return answer('DIVERGED') end", "", "lineage and lineage .. '-' .. text(below + i + 1) or '*'", "'*'",
			"if foreign(lineage, at) then return answer('FOREIGN') end", "",
		},
		func(t *testing.T, p redistest.Program, script *redis.Script) error {
			srv := redistest.Start(t, p)
			proxy, address := turn(t, srv)
			j := &journal{}
			s := newSink(t, address)
			s.script = script
			pub := publish(t, s, j)
			pub.commit(t, j, 10)
			proxy.LoseAnswers(1)
			pub.commit(t, j, 20)
			if n := len(srv.Stream(t, "alerts")); n != 20 {
				return fmt.Errorf("%d messages of 20", n)
			}
			return nil
		},
	},
	{
		"position outside the script",
		[]string{"stand(lineage, text(below + count), ARGV[first + (count - 1) * width])", ""},
		func(t *testing.T, p redistest.Program, script *redis.Script) error {
			srv := redistest.Start(t, p)
			j := &journal{}
			s := mutated(t, srv, script)
			if _, err := s.Publish(t.Context(), j.batch(1, 0, 10)); err != nil {
				return err
			}
			if at, err := s.Open(t.Context()); err != nil || at != j.at(1, 10) {
				return fmt.Errorf("stands at %v behind ten messages: %w", at, err)
			}
			return nil
		},
	},
	{
		"no chain",
		[]string{
			"if now.chain ~= chain then return answer('DIVERGED') end", "",
			"if now.chain ~= ARGV[first + (count - 1) * width] then return answer('DIVERGED') end", "",
		},
		func(t *testing.T, p redistest.Program, script *redis.Script) error {
			srv := redistest.Start(t, p)
			j := &journal{}
			s := mutated(t, srv, script)
			put(t, s, j.batch(1, 0, 10))
			other := &journal{salt: "other"}
			if _, err := s.Publish(t.Context(), other.batch(1, 10, 1)); err == nil {
				return errors.New("another history went on where ours stood")
			}
			if _, err := s.Publish(t.Context(), other.batch(1, 5, 5)); err == nil {
				return errors.New("another history was taken for ours")
			}
			return nil
		},
	},
	{
		"no second witness",
		[]string{"if foreign(lineage, at) then return answer('FOREIGN') end", "", "lineage and lineage .. '-' .. text(below + i + 1) or '*'", "'*'"},
		func(t *testing.T, p redistest.Program, script *redis.Script) error {
			srv := redistest.Start(t, p)
			j := &journal{}
			s := mutated(t, srv, script)
			put(t, s, j.batch(1, 0, 10))
			srv.Must(t, "DEL", s.position)
			if at, err := s.Open(t.Context()); err != nil || at != j.at(1, 10) {
				return fmt.Errorf("stands at %v without its hash: %w", at, err)
			}
			return nil
		},
	},
	{
		"numbers as Lua writes them",
		[]string{"string.format('%.0f', number)", "tostring(number)"},
		func(t *testing.T, p redistest.Program, script *redis.Script) error {
			srv := redistest.Start(t, p)
			s := mutated(t, srv, script)
			b := (&journal{}).batch(2, 0, 2)
			b.Base.Sequence, b.Messages[0].Sequence, b.Messages[1].Sequence = 1e15, 1e15+1, 1e15+2
			must(t, s.Begin(t.Context(), b.Base))
			if _, err := s.Publish(t.Context(), b); err != nil {
				return err
			}
			if last := srv.LastID("alerts"); last != "2-1000000000000002" {
				return fmt.Errorf("the last id is %s", last)
			}
			return nil
		},
	},
}

// mutated is an open sink that uses a script.
func mutated(t *testing.T, srv *redistest.Server, script *redis.Script) *Sink {
	t.Helper()
	s := newSink(t, srv.Address)
	s.script = script
	open(t, s)
	return s
}

// Each guard of the script is needed, and these tests see it: with the guard left out the same scenario goes wrong.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			p := redistest.Default(t)
			if err := m.scenario(t, p, emit); err != nil {
				t.Fatalf("the script itself: %v", err)
			}
			source := emitSource
			for i := 0; i < len(m.edits); i += 2 {
				edited := strings.Replace(source, m.edits[i], m.edits[i+1], 1)
				if edited == source {
					t.Fatalf("the script has no %q", m.edits[i])
				}
				source = edited
			}
			if err := m.scenario(t, p, redis.NewScript(source)); err == nil {
				t.Fatal("nobody notices")
			}
		})
	}
}
