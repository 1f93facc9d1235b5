package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// readAudit reads the lines of an audit log.
func readAudit(t *testing.T, file string) []auditLine {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []auditLine
	for text := range bytes.Lines(data) {
		var l auditLine
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// A change has a line before and one behind it, whatever texts there are in it.
func TestAudit(t *testing.T) {
	a := &audit{path: filepath.Join(t.TempDir(), "audit.jsonl")}
	hostile := "eve\n{\"v\":1,\"who\":\"ada\"}\r\u2028\x1b[2J\x00\xff"
	id, err := a.begin(auditEntry{
		Who: hostile, Role: "editor", From: hostile, Action: "update", Subject: strings.Repeat("é", auditText), Old: "1", New: "2",
		Files: []auditFile{{Name: hostile, Old: "1", New: "2"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.end(id, errors.New(hostile)); err != nil {
		t.Fatal(err)
	}
	lines := readAudit(t, a.path)
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	begin, end := lines[0], lines[1]
	if begin.Step != stepBegin || end.Step != stepEnd || begin.ID != id || end.ID != id || begin.Version != auditVersion || begin.At.IsZero() {
		t.Errorf("%+v %+v", begin, end)
	}
	if want := strings.ToValidUTF8(hostile, "\ufffd"); begin.Who != want || begin.Files[0].Name != want || end.Error != want || end.Outcome != outcomeFailed {
		t.Errorf("%+v %+v", begin, end)
	}
	if !utf8.ValidString(begin.Subject) || len(begin.Subject) > auditText+3 {
		t.Errorf("subject of %d bytes", len(begin.Subject))
	}
	data, err := os.ReadFile(a.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range data {
		if b < ' ' && b != '\n' {
			t.Errorf("a byte %#x stands in the log", b)
		}
	}
	info, err := os.Stat(a.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// A line that a crash has torn does not spoil the next one; a log that was moved away is begun anew.
func TestAuditGoesOn(t *testing.T) {
	a := &audit{path: filepath.Join(t.TempDir(), "audit.jsonl")}
	if err := os.WriteFile(a.path, []byte(`{"v":1,"at":"20`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.begin(auditEntry{Who: "ada"}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(a.path)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(string(data), "\n"); len(lines) != 3 || !json.Valid([]byte(lines[1])) || lines[2] != "" {
		t.Errorf("%q", data)
	}
	if err := os.Rename(a.path, a.path+".1"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.begin(auditEntry{Who: "ada"}); err != nil || len(readAudit(t, a.path)) != 1 {
		t.Error(err)
	}
}

// What cannot be noted is refused, and says that nothing was changed.
func TestAuditRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, a := range map[string]*audit{
		"a directory":  {path: dir},
		"no directory": {path: filepath.Join(dir, "none", "audit.jsonl")},
	} {
		if _, err := a.begin(auditEntry{Who: "ada"}); err == nil || !strings.Contains(err.Error(), "nothing was changed, because it cannot be noted: audit log "+a.path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	files := make([]auditFile, auditFiles+7)
	a := &audit{path: filepath.Join(dir, "audit.jsonl")}
	if _, err := a.begin(auditEntry{Who: "ada", Files: files}); err != nil {
		t.Fatal(err)
	}
	if l := readAudit(t, a.path); len(l[0].Files) != auditFiles || l[0].Omitted != 7 {
		t.Errorf("%d files, %d omitted", len(l[0].Files), l[0].Omitted)
	}
}

// Lines of changes that go on at the same time do not mix.
func TestAuditWritesWholeLines(t *testing.T) {
	a := &audit{path: filepath.Join(t.TempDir(), "audit.jsonl")}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 5 {
				if _, err := a.begin(auditEntry{Who: "ada", Subject: strings.Repeat("x", 500)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := len(readAudit(t, a.path)); n != 40 {
		t.Errorf("%d lines", n)
	}
}

// A client has its rate and no more, whoever else asks, and the table of clients is bounded.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(10, 20)
		took := func(name string) (n int) {
			for range 100 {
				if _, ok := l.admit(name, time.Now()); ok {
					n++
				}
			}
			return n
		}
		if a, b := took("a"), took("b"); a != 20 || b != 20 {
			t.Errorf("at once %d and %d", a, b)
		}
		after, ok := l.admit("a", time.Now())
		if ok || after <= 0 || after > time.Second {
			t.Errorf("come again after %s", after)
		}
		time.Sleep(time.Second)
		if n := took("a"); n != 10 {
			t.Errorf("%d in a second", n)
		}
		for i := range clientsMax * 2 {
			l.admit(strings.Repeat("n", i%7)+time.Duration(i).String(), time.Now())
		}
		if len(l.clients) != clientsMax || l.order.Len() != clientsMax {
			t.Errorf("%d and %d clients", len(l.clients), l.order.Len())
		}
		if n := took("a"); n != 20 {
			t.Errorf("a client that was forgotten has %d", n)
		}
		free := newLimiter(0, 0)
		if _, ok := free.admit("a", time.Now()); !ok || len(free.clients) != 0 {
			t.Error("a limit of 0 is one")
		}
	})
}

func TestNetwork(t *testing.T) {
	for ip, want := range map[string]string{
		"10.1.2.3": "10.1.2.3", "::ffff:10.1.2.3": "10.1.2.3", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
		"": "", "no address": "no address",
	} {
		if got := network(ip); got != want {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
}
