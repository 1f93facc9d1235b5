package engine

import (
	"fmt"
	"sync"

	"github.com/cepd/cepd/nfa"
)

// intake makes machines of records, those of each shard in a goroutine of its own where there are several: reading a state is
// what a start takes longest for.
type intake struct {
	lines []chan []stored // by shard, nil where the caller does it all; the caller alone sends and closes
	next  [][]stored
	block arena
	errs  []error // of the goroutines
	done  sync.WaitGroup
}

// stored is the state of a key on its way to a machine.
type stored struct {
	restorer  *nfa.Restorer
	rule, key string
	value     []byte
}

// intakeBatch is the number of records that are handed over at a time: so many that handing over costs nothing a record.
// intakeMax is the number of batches that wait for a shard.
const (
	intakeBatch = 1024
	intakeMax   = 4
)

func newIntake(shards int, parallel bool) *intake {
	in := &intake{}
	if !parallel || shards == 1 {
		return in
	}
	in.next, in.errs = make([][]stored, shards), make([]error, shards)
	for i := range shards {
		line := make(chan []stored, intakeMax)
		in.lines = append(in.lines, line)
		in.done.Go(func() {
			for batch := range line {
				for _, r := range batch {
					if in.errs[i] == nil {
						in.errs[i] = r.restore()
					}
				}
			}
		})
	}
	return in
}

func (r *stored) restore() error {
	if err := r.restorer.Key(r.key, r.value); err != nil {
		return fmt.Errorf("rule %s: %w", r.rule, err)
	}
	return nil
}

// take takes a record for the machine of a shard; it is copied if that is elsewhere.
func (in *intake) take(shard int, m *nfa.Restorer, rule string, key, value []byte) error {
	r := stored{restorer: m, rule: rule, key: string(key), value: value}
	if in.lines == nil {
		return r.restore()
	}
	r.value = in.block.add(value)
	if in.next[shard] = append(in.next[shard], r); len(in.next[shard]) >= intakeBatch {
		in.lines[shard] <- in.next[shard]
		in.next[shard] = make([]stored, 0, intakeBatch)
	}
	return nil
}

// end waits until all is read.
func (in *intake) end() error {
	for i, line := range in.lines {
		line <- in.next[i]
		close(line)
	}
	in.done.Wait()
	for _, err := range in.errs {
		if err != nil {
			return err
		}
	}
	return nil
}
