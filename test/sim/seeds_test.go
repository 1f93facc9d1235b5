package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cepd/cepd/sinks/memsink"
)

var (
	seeds = flag.Int("seeds", seedsDefault(), "how many seeds to run")
	from  = flag.Uint64("from", 1, "the first seed")
	times = flag.Int("times", 1, "how often to run each")
)

// seedsDefault is 200, the number that every run of the tests has; CEPD_SEEDS asks for more.
func seedsDefault() int {
	if n, err := strconv.Atoi(os.Getenv("CEPD_SEEDS")); err == nil {
		return n
	}
	return 200
}

// play runs a seed in simulated time.
func play(t *testing.T, seed uint64, o Options) (out outcome, err error) {
	synctest.Test(t, func(t *testing.T) { out, err = run(t.Context(), Draw(seed), o) })
	return out, err
}

// TestSeeds runs whole jobs against a world that breaks, on all processors. 200 seeds take some ten seconds.
//
// What breaks depends on the seed alone, and what happens on how goroutines interleave as well: a seed that has failed may
// have to be run some times until it fails again.
func TestSeeds(t *testing.T) {
	total := playAll(t, *seeds, "-seeds", func(t *testing.T, seed uint64) (outcome, error) { return play(t, seed, Options{}) })
	t.Logf("%d seeds: %d lives, %d killed, %d woke up as zombies, %d found their newest epoch damaged, rules changed %d times while they ran; %d alerts to each of two sinks, each once, in order, and %d silenced; points %v",
		*seeds**times, total.lives, total.kills, total.zombies, total.damages, total.swaps, total.alerts, total.silenced, total.hits)
}

// playAll plays n seeds from -from on, each -times times, and returns what came of all of them together. flag is the one that
// says how many there are, for the line that plays one again.
func playAll(t *testing.T, n int, flag string, play func(*testing.T, uint64) (outcome, error)) outcome {
	t.Helper()
	name := t.Name()
	var mu sync.Mutex
	total := outcome{hits: map[string]int{}}
	var next atomic.Uint64
	next.Store(*from)
	t.Run("all", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1) - 1; seed < *from+uint64(n) && !t.Failed(); seed = next.Add(1) - 1 {
					for range *times {
						out, err := play(t, seed)
						if err != nil {
							t.Errorf("seed %d: %v\nwhat broke:\n  %s\nagain: go test ./test/sim -run '^%s$' %s 1 -times 100 -from %d -v",
								seed, err, strings.Join(out.log, "\n  "), name, flag, seed)
							break
						}
						mu.Lock()
						total.add(&out)
						mu.Unlock()
					}
				}
			})
		}
	})
	return total
}

// TestMutants breaks one promise at a time: a rig that does not notice is blind.
func TestMutants(t *testing.T) {
	const tries = 200 // most are caught within the first ten
	var all []Options
	for _, m := range memsink.Mutants {
		all = append(all, Options{Destination: m})
	}
	for _, m := range StoreMutants {
		all = append(all, Options{Store: m})
	}
	for _, o := range all {
		t.Run(fmt.Sprintf("%s, %s", o.Destination, o.Store), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(tries) {
				if _, err := play(t, seed+1, o); err != nil {
					t.Logf("caught by seed %d: %.300s", seed+1, err)
					return
				}
			}
			t.Errorf("not caught by %d seeds", tries)
		})
	}
}
