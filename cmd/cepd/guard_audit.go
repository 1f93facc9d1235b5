package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// auditVersion is that of the lines of the audit log.
	auditVersion = 1
	// auditText bounds each text of a line, in bytes: file names have some hundred, and a line is read by people.
	auditText = 1024
	// auditFiles bounds the files that a line names: a whole set of rules may be replaced at once.
	auditFiles = 1000
)

// audit is the log of what was changed, and by whom: one line of JSON before a change and one after it, each on disk before
// anything goes on. The file is opened anew for each line, so that it may be moved away at any time.
type audit struct {
	path string

	mu sync.Mutex
}

// auditEntry is a change.
type auditEntry struct {
	// Who is the name of the caller, "anonymous" where nobody is asked for one; a change that nobody asked for over HTTP has its
	// cause there: "files" or "signal". Role is what the caller may do, From the address.
	Who  string `json:"who,omitempty"`
	Role string `json:"role,omitempty"`
	From string `json:"from,omitempty"`
	// Action is what is done, Subject to which rule or epoch.
	Action  string `json:"action,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Old and New are hashes of what was and will be: of the text of a rule, the set of all rules, or a file.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Files are those in which a set differs from the one before, Omitted how many more there are.
	Files   []auditFile `json:"files,omitempty"`
	Omitted int         `json:"omitted,omitempty"`
}

// auditFile is a file with the SHA-256 of its content before and after; "" where there is none.
type auditFile struct {
	Name string `json:"name"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// auditLine is a line of the log.
type auditLine struct {
	Version int       `json:"v"`
	At      time.Time `json:"at"`
	// ID is that of the change: its two lines have the same.
	ID string `json:"id"`
	// Step is begin or end.
	Step string `json:"step"`
	auditEntry
	// Outcome is done or failed, Error why.
	Outcome string `json:"outcome,omitempty"`
	Error   string `json:"error,omitempty"`
}

// The steps and outcomes of changes.
const (
	stepBegin     = "begin"
	stepEnd       = "end"
	outcomeDone   = "done"
	outcomeFailed = "failed"
)

// begin notes a change that is about to be made, and returns what its end is noted with. After an error it must not be made.
func (a *audit) begin(e auditEntry) (id string, err error) {
	id = rand.Text()
	if n := len(e.Files) - auditFiles; n > 0 {
		e.Files, e.Omitted = e.Files[:auditFiles], n
	}
	if err := a.write(&auditLine{ID: id, Step: stepBegin, auditEntry: e}); err != nil {
		return "", fmt.Errorf("nothing was changed, because it cannot be noted: %w", err)
	}
	return id, nil
}

// end notes what became of a change.
func (a *audit) end(id string, outcome error) error {
	l := auditLine{ID: id, Step: stepEnd, Outcome: outcomeDone}
	if outcome != nil {
		l.Outcome, l.Error = outcomeFailed, outcome.Error()
	}
	return a.write(&l)
}

// write appends a line and returns once it is on disk.
func (a *audit) write(l *auditLine) error {
	l.Version, l.At, l.Error = auditVersion, time.Now().UTC(), bounded(l.Error)
	l.Who, l.From, l.Subject, l.Files = bounded(l.Who), bounded(l.From), bounded(l.Subject), slices.Clone(l.Files)
	for i := range l.Files {
		l.Files[i].Name = bounded(l.Files[i].Name)
	}
	// JSON has an escape for every end of line: a line is a line, whatever the texts hold.
	data, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.append(append(data, '\n')); err != nil {
		return fmt.Errorf("audit log %s: %w", a.path, plainPath(err))
	}
	return nil
}

// bounded shortens a text.
func bounded(s string) string {
	if len(s) <= auditText {
		return s
	}
	cut := auditText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

func (a *audit) append(line []byte) (err error) {
	f, err := os.OpenFile(a.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	}
	if size := info.Size(); size > 0 {
		// The process may have been killed within the line before.
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err := f.Write(line); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if info.Size() == 0 {
		return syncDir(filepath.Dir(a.path))
	}
	return nil
}

// syncDir makes names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
