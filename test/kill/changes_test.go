//go:build unix

package kill

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// soakUsual is how long rules are changed under load where nobody asks for more: some lives of the process, and some dozen
// changes.
const soakUsual = 5 * time.Second

// soak is how long, where somebody asks: as make kill does.
var soak = flag.Duration("soak", soakUsual, "for how long rules are changed under load")

// fleeting is the number of rules that come, change and go over HTTP.
const fleeting = 4

// lasting is a rule that is made over HTTP once and stays: from then on it has an alert for each event.
const lasting = `version: 1
rules: [{id: lasting, from: auth, by: [user], where: kind != "end", alert: {to: [changing], fields: {n: event.n}, include_events: none}}]
`

// changer changes the rules of a job whose process is killed now and then, and knows what must come of it.
type changer struct {
	*site
	random  *rand.Rand
	client  http.Client
	process *process
	address string

	// broken is held while a file has a mistake: a process that were started then would refuse to.
	broken sync.Mutex

	edit int
	// known are the texts that a rule over HTTP may have, by id: one, or two where the answer to a change did not come; "": it
	// may be gone.
	known map[string][]string
	// done counts answers by what was done, gone those that did not come because the process was killed.
	done map[string]int
	gone int
}

// TestChanges changes rules under load: by their files, by signals, over HTTP, with mistakes among them; and kills the process
// at random and in the middle of a change. The rules that did not change have found exactly what they would have found in peace,
// across all of it; a rule that HTTP has made is there after each kill, and misses nothing.
func TestChanges(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Default(t), "--appendonly", "yes", "--appendfsync", "everysec")
	s := newFeedSite(t, func(w *workload) *site { return newSite(t, w, server, "changes") })
	s.configure(append(posted(s),
		"rules: ["+s.dir+"/rules]", "rules: ["+s.name+"/rules]",
		"  bus: ", "  changing: {file: {path: "+s.name+"/changing.jsonl}, alerts: named}\n  bus: ",
		"dead_letters: refused", "dead_letters: refused\nreload: {debounce: 20ms, rehash: 1s}",
	)...)
	if err := os.MkdirAll(filepath.Join(s.name, "rules"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := &changer{site: s, random: moments(), client: http.Client{Timeout: lifeMax}, known: map[string][]string{}, done: map[string]int{}}
	c.file("rules.yaml", feedRules)
	l := s.posting(100, 10, streams)
	// A process is killed in the middle of a change, too: before another set takes over, when it has, when that is durable.
	points := []string{
		"", job.PointSwapping + ":2", "", job.PointSwapped + ":3", "", job.PointSwapPrepared + ":2", "", job.PointSwapCommitted + ":2",
		job.PointCommitted + ":20",
	}
	for begin, life := time.Now(), 0; time.Since(begin) < *soak || life < len(points); life++ {
		point := points[life%len(points)]
		c.live(l, point, time.Duration(200+c.random.IntN(800))*time.Millisecond)
		if t.Failed() {
			t.FailNow()
		}
	}
	c.quiet()
	s.finishPosted(l)
	c.judge(l[0].feed.n)
	var answers []string
	for _, what := range slices.Sorted(maps.Keys(c.done)) {
		answers = append(answers, fmt.Sprintf("%s: %d", what, c.done[what]))
	}
	t.Logf("%d and %d events; %s; %d changes without an answer", l[0].feed.n, l[1].feed.n, strings.Join(answers, ", "), c.gone)
}

// live changes rules until the process is killed.
func (c *changer) live(l []*poster, point string, after time.Duration) {
	c.t.Helper()
	c.process = c.start(point)
	if c.address = c.process.listening(l); c.address == "" {
		c.killed()
		return
	}
	killing := time.AfterFunc(after, func() {
		c.broken.Lock()
		defer c.broken.Unlock()
		if point == "" {
			_ = c.process.cmd.Process.Kill() // it may have ended
		}
	})
	defer killing.Stop()
	if _, ok := c.process.saysOrEnds(` running job=`); ok {
		c.compare()
	}
	late := time.Now().Add(after + lifeMax/4)
	for c.process.runs() && !c.t.Failed() {
		if point != "" && time.Now().After(late) {
			// The point lies behind a change that has not come about in time: an unlucky draw, or a slow machine.
			_ = c.process.cmd.Process.Kill()
			break
		}
		c.change()
	}
	c.killed()
}

// killed waits for the end.
func (c *changer) killed() {
	c.t.Helper()
	if killed, err := c.process.wait(); !killed {
		c.t.Fatalf("it was not killed: %v\n%s", err, c.process.logged())
	}
}

// change makes one change.
func (c *changer) change() {
	c.t.Helper()
	c.edit++
	id := fmt.Sprintf("fleeting-%d", c.random.IntN(fleeting))
	switch c.random.IntN(12) {
	case 0, 1: // a note in the file of the rules that stay
		c.file("rules.yaml", fmt.Sprintf("# Edit %d.\n%s", c.edit, feedRules))
		c.reload(http.StatusOK)
	case 2: // the watcher finds this one, or a signal that comes at the same time
		c.file("more.yaml", c.text("more"))
		if c.random.IntN(2) == 0 {
			_ = c.process.cmd.Process.Signal(syscall.SIGHUP) // it may have ended
		}
	case 3:
		c.file("more.yaml", "")
	case 4: // a mistake
		func() {
			c.broken.Lock()
			defer c.broken.Unlock()
			c.file("more.yaml", "version: 1\nrules: [{id: more, wher: x}]\n")
			c.reload(http.StatusUnprocessableEntity)
			if len(c.known[id]) < 2 {
				c.ask("mistake elsewhere", http.MethodPut, "/v1/rules/"+id, c.text(id), http.StatusConflict)
			}
			c.file("more.yaml", "")
		}()
		c.reload(http.StatusOK)
	case 5:
		c.reload(http.StatusOK)
	case 6:
		c.ask("checkpoint", http.MethodPost, "/v1/checkpoints", "", http.StatusOK, http.StatusCreated, http.StatusAccepted)
	case 7:
		c.write("delete", http.MethodDelete, id, "", "", http.StatusNoContent, http.StatusOK, http.StatusNotFound)
	case 8: // what is not valid is refused
		if len(c.known[id]) < 2 {
			c.ask("mistake", http.MethodPut, "/v1/rules/"+id, "version: 1\nrules: [{id: "+id+", wher: x}]\n", http.StatusUnprocessableEntity)
		}
	case 9:
		if len(c.known["lasting"]) == 0 || slices.Contains(c.known["lasting"], "") {
			c.write("put", http.MethodPut, "lasting", lasting, lasting, http.StatusOK, http.StatusCreated)
		}
	default:
		text := c.text(id)
		c.write("put", http.MethodPut, id, text, text, http.StatusOK, http.StatusCreated)
	}
	time.Sleep(time.Duration(c.random.IntN(30)) * time.Millisecond)
}

// text is a rule file of a rule that keeps open starts, and is another one with each edit.
func (c *changer) text(id string) string {
	return fmt.Sprintf(`version: 1
rules: [{id: %s, description: "edit %d", from: [auth, web], by: [user], within: %dh, sequence: [{step: a, from: auth, where: kind == "a"}, {step: b, from: web, where: kind == "b"}], alert: {to: [changing]}}]
`, id, c.edit, 1+c.edit%3)
}

// file writes a file of rules as an editor does, or removes it.
func (c *changer) file(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.name, "rules", name)
	if text == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			c.t.Fatal(err)
		}
		return
	}
	err := os.WriteFile(path+".part", []byte(text), 0o644)
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *changer) reload(want ...int) {
	c.t.Helper()
	c.ask("reload", http.MethodPost, "/-/reload", "", want...)
}

// ask sends a request, and returns the answer; nil: the process was killed before there was one, or has not been restored.
func (c *changer) ask(what, method, path, body string, want ...int) (answer []byte, status int) {
	c.t.Helper()
	r, err := http.NewRequest(method, "http://"+c.address+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/yaml")
	}
	if id, ok := strings.CutPrefix(path, "/v1/rules/"); ok && c.exists(id) {
		r.Header.Set("If-Match", "*")
	}
	a, err := c.client.Do(r)
	if err == nil {
		answer, err = io.ReadAll(a.Body)
		err = errors.Join(err, a.Body.Close())
	}
	switch {
	case err != nil:
		if c.gone++; c.process.runs() {
			select {
			case <-c.process.done: // a moment later
			case <-time.After(lifeMax / 4):
				c.t.Fatalf("%s %s: %v, and the process runs", method, path, err)
			}
		}
		return nil, 0
	case a.StatusCode == http.StatusServiceUnavailable:
		time.Sleep(5 * time.Millisecond)
		return nil, a.StatusCode
	case !slices.Contains(want, a.StatusCode):
		c.t.Errorf("%s %s: %s, want %v\n%s\n%s\n%s", method, path, a.Status, want, body, answer, c.process.logged())
	}
	c.done[what]++
	return answer, a.StatusCode
}

// write changes a rule over HTTP, to a text, "" for none.
func (c *changer) write(what, method, id, body, text string, want ...int) {
	c.t.Helper()
	if len(c.known[id]) == 0 {
		c.known[id] = []string{""}
	}
	if len(c.known[id]) > 1 {
		if c.settle(id); len(c.known[id]) > 1 {
			return // the process was killed
		}
	}
	_, status := c.ask(what, method, "/v1/rules/"+id, body, want...)
	switch {
	case status == 0:
		c.known[id] = append(c.known[id], text) // nobody knows
	case status == http.StatusNotFound:
		c.known[id] = []string{""}
	case status < 300:
		c.known[id] = []string{text}
	}
}

// exists says whether a rule is there, as far as is known.
func (c *changer) exists(id string) bool { return len(c.known[id]) > 0 && c.known[id][0] != "" }

// settle finds out which of its texts a rule has.
func (c *changer) settle(id string) {
	c.t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+c.address+"/v1/rules/"+id, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/yaml")
	a, err := c.client.Do(r)
	if err != nil {
		return
	}
	text, err := io.ReadAll(a.Body)
	if err = errors.Join(err, a.Body.Close()); err != nil || a.StatusCode == http.StatusServiceUnavailable {
		return
	}
	if a.StatusCode == http.StatusNotFound {
		text = nil
	} else if a.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s\n%s", id, a.Status, text)
	}
	if !slices.Contains(c.known[id], string(text)) {
		c.t.Fatalf("%s has the text\n%s\nand may have one of\n%s", id, text, strings.Join(c.known[id], "\n"))
	}
	c.known[id] = []string{string(text)}
}

// compare holds the rules that HTTP has made to what is known of them: a process that was just started has read them from
// the disk.
func (c *changer) compare() {
	c.t.Helper()
	for _, id := range slices.Sorted(maps.Keys(c.known)) {
		c.settle(id)
	}
}

// quiet leaves the rules as they are when nobody changes them any more, and sees that the one that stays is there.
func (c *changer) quiet() {
	c.t.Helper()
	c.file("rules.yaml", feedRules)
	c.file("more.yaml", "")
	c.process = c.start("")
	c.address = c.process.says(`listening address=(\S+)`)
	c.process.says(` running job=`)
	c.compare()
	for texts := c.known["lasting"]; len(texts) != 1 || texts[0] == ""; texts = c.known["lasting"] {
		if c.write("put", http.MethodPut, "lasting", lasting, lasting, http.StatusOK, http.StatusCreated); c.t.Failed() {
			c.t.FailNow()
		}
	}
	c.process.signal(syscall.SIGTERM)
	c.process.exits(0)
}

// judge looks at what the rules that changed have sent: nothing twice, and of the rule that stayed an alert for each event from
// one on.
func (c *changer) judge(events int) {
	c.t.Helper()
	ids, seen, first := map[string]bool{}, map[int]bool{}, events
	lines := c.lines("changing.jsonl")
	for _, line := range lines {
		var a struct {
			ID     string `json:"id"`
			Rule   string `json:"rule"`
			Fields struct {
				N int `json:"n"`
			} `json:"fields"`
		}
		if err := json.NewDecoder(bytes.NewReader([]byte(line))).Decode(&a); err != nil {
			c.t.Fatalf("%q: %v", line, err)
		}
		if ids[a.ID] {
			c.t.Errorf("it was sent twice: %s", line)
		}
		if ids[a.ID] = true; a.Rule == "lasting" {
			seen[a.Fields.N], first = true, min(first, a.Fields.N)
		}
	}
	missing := 0
	for n := first; n < events; n++ {
		if !seen[n] {
			missing++
		}
	}
	if len(seen) == 0 || missing > 0 {
		c.t.Errorf("the rule that stays has %d alerts, the first of event %d, and misses %d up to event %d", len(seen), first, missing, events)
	}
	tally.add(c.t, figures{alerts: len(lines), missing: missing})
}
