package eventlog_test

import (
	"io"
	"strings"
	"testing"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/eventlog"
	"github.com/cepd/cepd/cep/source/sourcetest"
)

func open(t testing.TB, c eventlog.Config) *eventlog.Log {
	t.Helper()
	l, err := eventlog.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func shut(t testing.TB, l *eventlog.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func appendAll(t testing.TB, l *eventlog.Log, records ...string) {
	t.Helper()
	var events []eventlog.Event
	for _, r := range records {
		events = append(events, eventlog.Event{Data: []byte(r)})
	}
	a, err := l.Append(t.Context(), events)
	if err != nil || a.Accepted != len(records) || a.Duplicates != 0 {
		t.Errorf("append %d: %+v, %v", len(records), a, err)
	}
}

// place is a log that is opened by whoever needs it.
type place struct {
	dir string
	log *eventlog.Log
}

func (p *place) use(t *testing.T, do func(*eventlog.Log)) {
	if p.log != nil {
		do(p.log)
		return
	}
	l := open(t, eventlog.Config{Dir: p.dir})
	do(l)
	shut(t, l)
}

func (p *place) open(t *testing.T, in io.Reader) source.Source {
	p.log = open(t, eventlog.Config{Dir: p.dir})
	return eventlog.NewSource(eventlog.SourceConfig{Log: p.log, Stream: "s", Partitions: source.NewPartitions("s"), Input: in})
}

func (p *place) shut(t *testing.T) {
	shut(t, p.log)
	p.log = nil
}

func TestRunning(t *testing.T) {
	sourcetest.RunSource(t, func(t *testing.T) sourcetest.Running {
		p := &place{dir: t.TempDir()}
		return sourcetest.Running{
			Open: func(t *testing.T) source.Source { return p.open(t, nil) },
			Append: func(t *testing.T, records ...string) {
				p.use(t, func(l *eventlog.Log) { appendAll(t, l, records...) })
			},
			End:  func(t *testing.T) { p.log.End() },
			Shut: p.shut,
		}
	})
}

// What comes on standard input, by a new pipe for each life.
func TestStdin(t *testing.T) {
	sourcetest.RunSource(t, func(t *testing.T) sourcetest.Running {
		p := &place{dir: t.TempDir()}
		var w *io.PipeWriter
		text := "" // what waits for somebody to read it
		return sourcetest.Running{
			Open: func(t *testing.T) source.Source {
				var r *io.PipeReader
				r, w = io.Pipe()
				s := p.open(t, io.MultiReader(strings.NewReader(text), r))
				text = ""
				return s
			},
			Append: func(t *testing.T, records ...string) {
				lines := strings.Join(records, "\n") + "\n"
				if w == nil {
					text += lines
				} else if _, err := io.WriteString(w, lines); err != nil {
					t.Error(err)
				}
			},
			End: func(t *testing.T) { _ = w.Close() },
			Shut: func(t *testing.T) {
				_ = w.Close()
				w = nil
				p.shut(t)
			},
		}
	})
}
