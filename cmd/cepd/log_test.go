package main

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/cepd/cepd/cmd/cepd/config"
)

// A line holds what was said, and nothing of it can fake another line.
func TestLogLines(t *testing.T) {
	var b bytes.Buffer
	log := newLogger(&b, config.Log{Level: config.Info})
	log.Debug("not shown")
	log.With("sink", "bus").Warn("cannot publish", "err", errors.New("dial: refused"), "after", 1500*time.Microsecond, "n", 3)
	log.Info("read\nERROR fake", "name", "a\nb", "empty", "", "key with space", "\x1b[31m", "é", "ü")
	log.WithGroup("g").Error("grouped", slog.Int("k", 1), slog.Group("h", slog.Int("l", 2)), slog.Attr{})
	got := regexp.MustCompile(`(?m)^\S+ `).ReplaceAllString(b.String(), "")
	want := `WARN  cannot publish sink=bus err="dial: refused" after=1.5ms n=3
INFO  read\nERROR fake name="a\nb" empty="" "key with space"="\x1b[31m" é=ü
ERROR grouped g.k=1 g.h.l=2
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if ts := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARN`); !ts.Match(b.Bytes()) {
		t.Errorf("no time: %s", b.Bytes())
	}
}

// The JSON log keeps the contract of handlers by itself; ours for people is held to the parts that it has.
func TestLogHandlerContract(t *testing.T) {
	var b bytes.Buffer
	h := newLogger(&b, config.Log{Level: config.Info}).Handler()
	field := regexp.MustCompile(`([^\s=]+)=("(?:[^"\\]|\\.)*"|\S*)`)
	err := slogtest.TestHandler(h, func() []map[string]any {
		var all []map[string]any
		for line := range bytes.Lines(b.Bytes()) {
			m := map[string]any{}
			if !bytes.HasPrefix(line, []byte("0001-01-01")) { // a record without a time has the zero one
				m[slog.TimeKey] = string(line[:24])
			}
			head := line[25:]
			m[slog.LevelKey] = string(bytes.TrimSpace(head[:5]))
			m[slog.MessageKey] = string(bytes.Fields(head)[1])
			for _, kv := range field.FindAllSubmatch(head, -1) {
				into := m
				parts := bytes.Split(kv[1], []byte("."))
				for _, p := range parts[:len(parts)-1] {
					inner, ok := into[string(p)].(map[string]any)
					if !ok {
						inner = map[string]any{}
						into[string(p)] = inner
					}
					into = inner
				}
				into[string(parts[len(parts)-1])] = string(kv[2])
			}
			all = append(all, m)
		}
		return all
	})
	if err != nil {
		t.Error(err)
	}
}
