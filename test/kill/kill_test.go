//go:build unix

package kill

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// killsUsual is how often a process is killed at random where nobody asks for more.
const killsUsual = 10

// kills is how often a process is killed at random.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("CEPD_KILLS")); err == nil {
		return n
	}
	return killsUsual
}

// moments draws the moments of kills: other ones in each run, because no process takes the same course twice anyway.
func moments() *rand.Rand { return rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)) }

// elsewhere are the failpoints that a run over files with sound state does not reach, by the test that does.
var elsewhere = map[string]string{
	"filesink.left":         "TestOutputIsRotated",
	"job.begun":             "TestOlderState",
	"job.swapped":           "TestSwap",
	"job.swap-committed":    "TestChanges",
	"job.swap-prepared":     "TestChanges",
	"job.swapping":          "TestChanges",
	"job.trimmed":           "TestPush",
	"publisher.noted":       "TestWeakerGuarantees",
	"publisher.rejected":    "TestWebhook",
	"store.compact.renamed": "TestCheckpointCommands",
	"store.compact.written": "TestCheckpointCommands",
	"store.drop.begun":      "TestFolds",
	"store.drop.step":       "TestFolds",
	"store.fold.complete":   "TestFolds",
	"store.fold.step":       "TestFolds",
	"store.import.written":  "TestCheckpointCommands",
	"store.rewind.step":     "TestDamage",
}

// TestFailpoints kills a process at every step that the packages name, the next one at the second time, and one more a little
// later.
func TestFailpoints(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t), "--appendonly", "yes", "--appendfsync", "everysec")
	w := newWorkload(t, t.TempDir(), 3_000)
	for _, point := range failpoints() {
		if elsewhere[point] != "" || strings.HasPrefix(point, "log.") { // TestPush kills at those of the log of posted events
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, w, server, strings.ReplaceAll(point, ".", "-"))
			hit := false
			for _, count := range []int{1, 2, 7} {
				p := s.start(fmt.Sprintf("%s:%d", point, count), "--once")
				was, err := p.wait()
				if !was && err != nil {
					t.Fatalf("%s:%d: %v\n%s", point, count, err, p.logged())
				}
				hit = hit || was
			}
			if !hit {
				t.Errorf("no run reaches it: list it in elsewhere with the test that does")
			}
			s.finish()
		})
	}
}

// TestRandomKills kills one job again and again at random moments.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t), "--appendonly", "yes", "--appendfsync", "everysec")
	w := newWorkload(t, t.TempDir(), 40_000)
	r := moments()
	killed, runs := 0, 0
	for round := 0; killed < kills(); round++ {
		s := newSite(t, w, server, fmt.Sprintf("random-%d", round))
		for killed < kills() {
			runs++
			was, err := s.start("", "--once").kill(time.Duration(20+r.IntN(600)) * time.Millisecond)
			if was {
				killed++
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			break // it came to its end
		}
		s.finish()
	}
	t.Logf("%d runs, %d killed; %d alerts to each of two sinks, each once, in order", runs, killed, w.number)
}
