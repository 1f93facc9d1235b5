package kill

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/checkpoint/boltstore"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/filesink"
	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// kills is how often a process is killed at random.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("CEPD_KILLS")); err == nil {
		return n
	}
	return 10
}

// elsewhere are the failpoints that a run over files with sound state does not reach, by the test that does.
var elsewhere = map[string]string{
	"job.swapped":         "TestSwap",
	"store.fold.step":     "TestFolds",
	"store.fold.complete": "TestFolds",
	"store.drop.step":     "TestFolds",
}

// TestFailpoints kills a process at every step that the packages name, and the next one a little later at the same step.
func TestFailpoints(t *testing.T) {
	server := redistest.Start(t, redistest.Default(t), "--appendonly", "yes", "--appendfsync", "everysec")
	w := newWorkload(t, t.TempDir(), 3_000)
	var points []string
	for _, list := range [][]string{job.Failpoints(), boltstore.Failpoints, sinks.Failpoints, filesink.Failpoints} {
		points = append(points, list...)
	}
	slices.Sort(points)
	killed := 0
	for _, point := range points {
		if elsewhere[point] != "" {
			continue
		}
		t.Run(point, func(t *testing.T) {
			s := newSite(t, w, server, strings.ReplaceAll(point, ".", "-"))
			hit := false
			for _, count := range []int{1, 2, 7} {
				p := s.start(fmt.Sprintf("%s:%d", point, count), "--once")
				was, err := p.wait()
				if !was && err != nil {
					t.Fatalf("%s:%d: %v\n%s", point, count, err, p.logged())
				}
				if was {
					hit = true
					killed++
				}
			}
			if !hit {
				t.Errorf("no run reaches it: list it in elsewhere with the test that does")
			}
			s.finish()
		})
	}
	t.Logf("%d failpoints, %d processes killed at them; nothing lost, nothing twice", len(points), killed)
}

// TestRandomKills kills one job again and again at random moments.
func TestRandomKills(t *testing.T) {
	server := redistest.Start(t, redistest.Default(t), "--appendonly", "yes", "--appendfsync", "everysec")
	w := newWorkload(t, t.TempDir(), 60_000)
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)) // another moment each time: the outcome is the same
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
