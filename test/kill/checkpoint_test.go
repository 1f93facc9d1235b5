//go:build unix

package kill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// oneClock is a set of rules that all go by one stream. Their alerts have one order over all, so that a destination which is
// ahead can be followed.
const oneClock = `version: 1
rules:
- {id: brute, from: auth, by: [user], within: 30s, sequence: [{step: fail, where: kind == "a", times: 3..}, {step: ok, where: kind == "b"}], alert: {fields: {n: len(fail)}}}
- {id: silent, from: auth, by: [user], sequence: [{step: c, where: kind == "c"}, {absent: b, where: kind == "b", for: 40s}]}
- {id: storm, from: auth, by: [user], where: kind == "x", alert: {suppress: {by: [user], for: 25s}}}
`

// onlyAlerts leaves the letters away: of events that several partitions refuse they come in the order of reading, which is
// another one when they are read again.
var onlyAlerts = []string{", late: refused", "", "dead_letters: refused\n", ""}

// checkOnlyAlerts compares alerts.
func (s *site) checkOnlyAlerts() {
	s.t.Helper()
	p := s.start("", "--once")
	p.exits(0)
	s.checkAlerts("the file", s.lines("alerts.jsonl"))
	s.checkAlerts("Redis", s.bodies())
}

// state is the directory of the checkpoints.
func (s *site) state() string { return filepath.Join(s.name, "state") }

// checkpoint runs `cepd checkpoint` with a failpoint or "", and says whether the process was killed there.
func (s *site) checkpoint(failpoint string, args ...string) (killed bool) {
	s.t.Helper()
	p := s.launch(nil, failpoint, append([]string{"checkpoint"}, args...)...)
	killed, err := p.wait()
	if err != nil && !killed || killed != (failpoint != "") {
		s.t.Fatalf("checkpoint %v with %q: %v\n%s", args, failpoint, err, p.logged())
	}
	return killed
}

// epochs lists the epochs that are kept and sound.
func (s *site) epochs() []int {
	s.t.Helper()
	if _, err := os.Stat(s.state()); err != nil {
		return nil
	}
	p := s.launch(nil, "", "checkpoint", "ls", "--json", s.state())
	p.exits(0)
	var l struct {
		Epochs []struct {
			Epoch  int    `json:"epoch"`
			Damage string `json:"damage"`
		} `json:"epochs"`
	}
	if err := json.Unmarshal([]byte(p.logged()), &l); err != nil {
		s.t.Fatalf("%v\n%s", err, p.logged())
	}
	var sound []int
	for _, e := range l.Epochs {
		if e.Damage == "" {
			sound = append(sound, e.Epoch)
		}
	}
	return sound
}

// TestCheckpointCommands kills the commands that write: what they worked on is as it was, or as they wanted it.
func TestCheckpointCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newSite(t, newWorkload(t, t.TempDir(), 20_000), server, "commands")
	s.hit("job.told:3")
	for _, point := range []string{"store.compact.written", "store.compact.renamed"} {
		before := s.epochs()
		s.checkpoint(point, "compact", s.state())
		s.checkpoint("", "verify", s.state())
		if after := s.epochs(); !slices.Equal(before, after) {
			t.Errorf("killed at %s: epochs %v were there, and are now %v", point, before, after)
		}
		s.hit("job.told") // and the job goes on
	}
	s.checkpoint("", "compact", s.state())

	file := filepath.Join(s.name, "copy")
	s.checkpoint("", "export", s.state(), file)
	if err := os.RemoveAll(s.state()); err != nil {
		t.Fatal(err)
	}
	s.checkpoint("store.import.written", "import", s.state(), file)
	if _, err := os.Stat(filepath.Join(s.state(), "checkpoint.db")); err == nil {
		t.Error("an import that was killed has left checkpoints")
	}
	s.checkpoint("", "import", s.state(), file)
	s.finish()
}

// TestOlderState brings back a state that destinations are ahead of.
func TestOlderState(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	w := newWorkload(t, t.TempDir(), 30_000, oneClock)
	for _, savepoint := range []bool{false, true} {
		t.Run(fmt.Sprintf("savepoint=%v", savepoint), func(t *testing.T) {
			s := newSite(t, w, server, fmt.Sprintf("older-%v", savepoint))
			s.configure(onlyAlerts...)
			s.hit("job.told:2")
			file := filepath.Join(s.name, "older")
			s.checkpoint("", "export", s.state(), file)
			s.hit("job.told:3")                                                                         // destinations go on
			ahead := map[string]int{"the file": len(s.lines("alerts.jsonl")), "Redis": len(s.bodies())} // each by itself
			if err := os.RemoveAll(s.state()); err != nil {
				t.Fatal(err)
			}
			if !savepoint {
				// The alerts are found again, compared, and not sent again.
				s.checkpoint("", "import", s.state(), file)
				s.hit("job.told")
				s.checkOnlyAlerts()
				return
			}
			// A new lineage begins at the older epoch: what came since then comes again, with the same ids.
			s.checkpoint("", "import", "--savepoint", s.state(), file)
			for _, point := range []string{"job.begun", "publisher.begun", "publisher.placed", "filesink.begun", "job.told"} {
				s.hit(point)
			}
			p := s.start("", "--once")
			p.exits(0)
			for where, lines := range map[string][]string{"the file": s.lines("alerts.jsonl"), "Redis": s.bodies()} {
				missing, again, _ := s.differ(lines)
				if missing > 0 || again == 0 || again > ahead[where] {
					t.Errorf("%s: %d alerts are missing, and %d came again, of %d that were there", where, missing, again, ahead[where])
				}
			}
		})
	}
}

// TestDamage spoils all epochs of a state but the first ones: they are set aside, the newest sound one is used, and what was
// sent since is compared and not sent again. The process is killed while it takes the damaged ones away, which takes several
// steps where there are many.
func TestDamage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t))
	s := newFeedSite(t, func(w *workload) *site { return newSite(t, w, server, "damage") })
	// What goes by one clock has one order, and can be found again in it.
	s.write(t, "rules/rules.yaml", []byte(`version: 1
rules:
- {id: auth, from: auth, by: [user], where: kind != "end", alert: {fields: {n: event.n}, include_events: none}}
- {id: brute, from: auth, by: [user], within: 6h, sequence: [{step: fail, where: kind == "a", times: 2..}, {step: ok, where: kind == "b"}], alert: {fields: {n: len(fail)}}}
`))
	s.configure(append(posted(s), "interval: 20ms", "interval: 10ms")...)
	l := s.posting(0, 3, streams[:1])
	p := s.start("")
	for address := p.listening(l); s.status(address).Epoch.Committed < 80; time.Sleep(10 * time.Millisecond) {
	}
	p.signal(syscall.SIGKILL)
	_, _ = p.wait()
	const spoilt = 5
	name := filepath.Join(s.state(), "checkpoint.db")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// Each copy of their manifests that the file has, in use or not.
	data = regexp.MustCompile(`"epoch":\d+,`).ReplaceAllFunc(data, func(mark []byte) []byte {
		var n int
		if _, err := fmt.Sscanf(string(mark), `"epoch":%d,`, &n); err == nil && n >= spoilt {
			return bytes.Replace(mark, []byte("epoch"), []byte("epoxh"), 1)
		}
		return mark
	})
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if sound := s.epochs(); len(sound) != spoilt-1 {
		t.Fatalf("epochs from %d on were spoilt, and these are sound: %v", spoilt, sound)
	}
	p = s.start("store.rewind.step")
	if killed, err := p.wait(); !killed || !strings.Contains(p.logged(), "set aside") {
		t.Fatalf("%v\n%s", err, p.logged())
	}
	p = s.start("job.told:2")
	p.listening(l)
	if killed, err := p.wait(); !killed {
		t.Fatalf("%v\n%s", err, p.logged())
	}
	s.finishPosted(l)
	s.checkpoint("", "verify", s.state())
}
