package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/rulesapi"
)

const (
	// secretsEvery is how often the files of tokens and certificates are looked at. A token that is taken away counts no longer
	// than that; SIGHUP and POST /-/reload look at once.
	secretsEvery = 10 * time.Second
	// changesLogged is how many rules a reload names in the log; the answer and /-/reload name all.
	changesLogged = 100
)

// ruleKept is the kind of change of a rule that is what it was.
var ruleKept = engine.RuleKept.String()

// Why rules are loaded again, where nobody asked for it over HTTP.
const (
	byFiles  = "files"
	bySignal = "signal"
)

// reloader puts sets of rules in force, one at a time: those that stand on the disk, and those of the API. Whatever is wrong
// with one, the set before it runs on.
type reloader struct {
	config *config.Config
	job    *job.Job
	guard  *guard // nil where there is no listener
	audit  *audit
	log    *slog.Logger
	// observe is told of each set that is in force because of a reload; nil: nobody is.
	observe func(*rules.Set)
	// turn has room for the one whose turn it is.
	turn chan struct{}
	// secrets are the files of tokens and certificates as they were when they were read. They belong to whose turn it is.
	secrets map[string]string

	mu   sync.Mutex
	last reloadStatus
}

// reloadStatus is how the last change of the rules went: by files, a signal, POST /-/reload or the API. What the API refuses
// before it changes anything is none.
type reloadStatus struct {
	// At is when it was tried last, Succeeded when it last succeeded; the start counts. OK says that the last one did.
	At        time.Time `json:"at"`
	Succeeded time.Time `json:"succeeded"`
	OK        bool      `json:"ok"`
	// Error says everything that was wrong with the last one.
	Error string `json:"error,omitempty"`
	// By is who asked for it, or files, signal or start.
	By string `json:"by"`
	// Set is the id of the set in force, Epoch the one that it took over in, Changes what became of its rules then.
	Set     string                `json:"set"`
	Epoch   cep.Epoch             `json:"epoch,omitempty"`
	Changes []rulesapi.RuleChange `json:"changes"`
	// Pause is how long no event was worked on.
	Pause time.Duration `json:"pause_ns"`
	// Count is the number of changes that were tried, Failed that of those which failed.
	Count  uint64 `json:"count"`
	Failed uint64 `json:"failed"`
}

// reloadAnswer is what a reload says to who asked for it.
type reloadAnswer struct {
	Set string `json:"set"`
	// Unchanged says that the files are those of the set in force.
	Unchanged bool `json:"unchanged"`
	// DryRun says that nothing was changed: the rest is what would be.
	DryRun  bool                  `json:"dry_run,omitempty"`
	Epoch   cep.Epoch             `json:"epoch,omitempty"`
	Changes []rulesapi.RuleChange `json:"changes"`
	Pause   time.Duration         `json:"pause_ns,omitempty"`
	// Warnings are those of the rules.
	Warnings []string `json:"warnings,omitempty"`
	// Read names what was read again, so that nobody expects more.
	Read string `json:"read"`
}

// whatIsRead stands in each answer.
const whatIsRead = "rules, lists, tokens and certificates; the configuration is read at the start only"

func newReloader(c *config.Config, j *job.Job, g *guard, a *audit, log *slog.Logger) *reloader {
	now := time.Now()
	r := &reloader{config: c, job: j, guard: g, audit: a, log: log, turn: make(chan struct{}, 1)}
	r.secrets = r.secretFiles()
	r.last = reloadStatus{At: now, Succeeded: now, OK: true, By: "start", Set: j.Rules().ID(), Changes: []rulesapi.RuleChange{}}
	return r
}

// status is how the last change went.
func (r *reloader) status() reloadStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// begin waits for its turn.
func (r *reloader) begin(ctx context.Context) (done func(), err error) {
	select {
	case r.turn <- struct{}{}:
		return sync.OnceFunc(func() { <-r.turn }), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the change of rules that is under way: %w", ctx.Err())
	}
}

// compile reads the rules as a start would, with some files as they are given here, nil for those that are to be gone.
func (r *reloader) compile(over map[string][]byte) (*rules.Set, patterns.Diagnostics, error) {
	set, diagnostics, err := rules.LoadOver(r.config.Rules, over)
	if err != nil {
		return nil, nil, fmt.Errorf("read the rules: %w", plainPath(err))
	}
	if set != nil {
		diagnostics = append(diagnostics, r.config.CheckRules(set.Rules, set.Sources)...)
	}
	if len(diagnostics.Errors()) > 0 {
		return nil, diagnostics, nil
	}
	return set, diagnostics, nil
}

// reload puts in force what stands on the disk. With dry it only says what would be.
func (r *reloader) reload(ctx context.Context, by auditEntry, dry bool) (*reloadAnswer, error) {
	done, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	// A change that has begun is not given up because nobody waits for its answer.
	answer, err := r.reloadNow(context.WithoutCancel(ctx), by, dry)
	if err != nil && !dry {
		r.note(by.Who, nil, nil, err)
		r.log.Error("the rules were not loaded again; those before run on", "by", by.Who, "err", err)
	}
	return answer, err
}

// reloadNow is reload for whose turn it is.
func (r *reloader) reloadNow(ctx context.Context, by auditEntry, dry bool) (*reloadAnswer, error) {
	if by.Who != byFiles && !dry {
		if err := r.readSecrets(by); err != nil {
			return nil, err
		}
	}
	set, diagnostics, err := r.compile(nil)
	if err != nil {
		return nil, err
	}
	if set == nil {
		return nil, diagnostics
	}
	before := r.job.Rules()
	answer := &reloadAnswer{Set: set.ID(), DryRun: dry, Changes: []rulesapi.RuleChange{}, Read: whatIsRead}
	for _, d := range diagnostics {
		answer.Warnings = append(answer.Warnings, d.Error())
	}
	if answer.Unchanged = answer.Set == before.ID(); answer.Unchanged {
		if !dry {
			r.note(by.Who, &job.Swapped{Set: answer.Set}, set, nil)
		}
		return answer, nil
	}
	if dry {
		changes, err := r.job.Plan(ctx, set)
		answer.Changes = changesOf(changes, set)
		return answer, err
	}
	by.Action, by.Old, by.New, by.Files = "reload", before.ID(), answer.Set, filesChanged(before, set)
	id, err := r.audit.begin(by)
	if err != nil {
		return nil, err
	}
	swapped, err := r.job.Swap(ctx, set)
	if noted := r.audit.end(id, err); err == nil && noted != nil {
		r.log.Error("a change was made and its end could not be noted", "change", id, "err", noted)
	}
	if err != nil {
		return nil, fmt.Errorf("change the rules: %w", err)
	}
	r.note(by.Who, swapped, set, nil)
	r.report(by.Who, swapped)
	if r.observe != nil {
		r.observe(r.job.Rules())
	}
	answer.Epoch, answer.Changes, answer.Pause = swapped.Epoch, changesOf(swapped.Changes, set), swapped.Pause
	return answer, nil
}

// swap puts a set of the API in force, for whose turn it is.
func (r *reloader) swap(ctx context.Context, set *rules.Set, who string) (*job.Swapped, error) {
	swapped, err := r.job.Swap(ctx, set)
	r.note(who, swapped, set, err)
	if err != nil {
		r.log.Error("the rules were not changed; those before run on", "by", who, "err", err)
		return nil, err
	}
	r.report(who, swapped)
	return swapped, nil
}

// note remembers how a change to a set went.
func (r *reloader) note(who string, s *job.Swapped, set *rules.Set, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.At, r.last.By, r.last.OK, r.last.Error = time.Now(), who, err == nil, ""
	r.last.Count++
	if err != nil {
		r.last.Failed++
		r.last.Error = err.Error()
		return
	}
	r.last.Succeeded = r.last.At
	if s.Epoch != 0 { // else nothing has changed, and what was said of the last change stands
		r.last.Set, r.last.Epoch, r.last.Changes, r.last.Pause = s.Set, s.Epoch, changesOf(s.Changes, set), s.Pause
	}
}

// report logs what became of each rule that is not what it was.
func (r *reloader) report(who string, s *job.Swapped) {
	if s.Epoch == 0 {
		return
	}
	counts := map[string]int{}
	named := 0
	for _, c := range s.Changes {
		counts[c.Kind]++
		if c.Kind == ruleKept && c.Dropped == 0 {
			continue
		}
		if named++; named <= changesLogged {
			r.log.Info("the rules have changed", "rule", c.Rule, "change", c.Kind, "starts", c.Starts, "dropped", c.Dropped, "reason", c.Reason)
		}
	}
	attrs := []any{"by", who, "set", shortID(s.Set), "epoch", s.Epoch, "pause", s.Pause}
	kinds := make([]string, 0, len(counts))
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		attrs = append(attrs, kind, counts[kind])
	}
	r.log.Info("the rules are in force", attrs...)
}

// shortID is enough of the id of a set to tell it from others.
func shortID(id string) string { return id[:min(12, len(id))] }

// filesChanged are the files in which two sets differ.
func filesChanged(before, after *rules.Set) []auditFile {
	old := map[string]string{}
	for _, f := range before.Files() {
		old[f.Name] = f.Hash()
	}
	var list []auditFile
	for _, f := range after.Files() {
		if hash := f.Hash(); old[f.Name] != hash {
			list = append(list, auditFile{Name: f.Name, Old: old[f.Name], New: hash})
		}
		delete(old, f.Name)
	}
	for name, hash := range old {
		list = append(list, auditFile{Name: name, Old: hash})
	}
	slices.SortFunc(list, func(a, b auditFile) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// named are the lists and maps that the rules in force name.
func (r *reloader) named() []string {
	var names []string
	for _, f := range r.job.Rules().Files() {
		if !f.Rules {
			names = append(names, f.Name)
		}
	}
	return names
}

// secretFiles are the files of tokens and certificates, each with a hash of what is in it.
func (r *reloader) secretFiles() map[string]string {
	list := map[string]string{}
	if r.guard == nil {
		return list
	}
	for _, name := range []string{r.config.HTTP.Tokens, r.config.HTTP.TLS.Certificate, r.config.HTTP.TLS.Key, r.config.HTTP.TLS.ClientCA} {
		if name == "" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			list[name] = "unreadable: " + err.Error()
			continue
		}
		sum := sha256.Sum256(data)
		list[name] = hex.EncodeToString(sum[:])
	}
	return list
}

// readSecrets reads tokens and certificates again where a file is not what it was. After an error those before count.
func (r *reloader) readSecrets(by auditEntry) error {
	now := r.secretFiles()
	by.Action, by.Files = "access", nil
	for name, hash := range now {
		if hash != r.secrets[name] {
			by.Files = append(by.Files, auditFile{Name: name, Old: r.secrets[name], New: hash})
		}
	}
	if len(by.Files) == 0 && (by.Who == byFiles || r.guard == nil || r.guard.sound()) {
		return nil
	}
	r.secrets = now
	id, err := r.audit.begin(by)
	if err != nil {
		return err
	}
	err = r.guard.read()
	if noted := r.audit.end(id, err); noted != nil {
		err = errors.Join(err, noted)
	}
	if err != nil {
		return fmt.Errorf("read who may do what again: %w; what was read before counts", err)
	}
	r.log.Info("tokens and certificates were read again", "by", by.Who)
	return nil
}

// watchSecrets looks at the files of tokens and certificates until ctx ends.
func (r *reloader) watchSecrets(ctx context.Context) {
	tick := time.NewTicker(secretsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		done, err := r.begin(ctx)
		if err != nil {
			return
		}
		if err := r.readSecrets(auditEntry{Who: byFiles}); err != nil {
			r.log.Error("tokens and certificates were not read again", "err", err)
		}
		done()
	}
}
