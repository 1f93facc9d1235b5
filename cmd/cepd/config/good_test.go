package config

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cepd/cepd/cep/codec"
)

// goodFiles are configurations without a mistake.
func goodFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal("no good files", err)
	}
	return files
}

func loadGood(t *testing.T, file string, above Layers) *Config {
	t.Helper()
	c, diagnostics, err := Load(file, above)
	if err != nil || len(diagnostics) > 0 {
		t.Fatal(err, diagnostics.Error())
	}
	return c
}

func printed(t *testing.T, c *Config, origins bool) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Print(&b, origins); err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("testdata/good")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`([^ \n]) +# `).ReplaceAllString(b.String(), "$1  # ") // the width of a path is that of the machine
	return strings.ReplaceAll(strings.ReplaceAll(text, dir, "/DIR"), filepath.Dir(dir), "/UP")
}

// What is printed is what is in force, by golden files.
func TestPrint(t *testing.T) {
	for _, file := range goodFiles(t) {
		c := loadGood(t, file, Layers{})
		golden(t, strings.TrimSuffix(file, ".yaml")+".txt", printed(t, c, true))
	}
}

// What is printed reads as the same configuration, in another directory too.
func TestPrintReadsTheSame(t *testing.T) {
	for _, file := range goodFiles(t) {
		c := loadGood(t, file, Layers{})
		var b bytes.Buffer
		if err := c.Print(&b, false); err != nil {
			t.Fatal(err)
		}
		again, diagnostics := Parse(filepath.Join(t.TempDir(), "cepd.yaml"), b.Bytes(), Layers{})
		if again == nil {
			t.Fatal(diagnostics.Error(), b.String())
		}
		absolutePaths(t, c)
		options := cmp.Options{
			cmpopts.EquateComparable(netip.Prefix{}),
			cmpopts.IgnoreUnexported(Config{}, Sink{}, codec.TimeSpec{}),
			cmp.Comparer(func(a, b Secret) bool { return bytes.Equal(a.Bytes(), b.Bytes()) && samePath(a.File, b.File) }),
		}
		if d := cmp.Diff(c, again, options); d != "" {
			t.Errorf("%s (-read +read again):\n%s", file, d)
		}
	}
}

func samePath(a, b string) bool { return absolutePath(a) == absolutePath(b) }

// absolutePaths makes the paths of a configuration as they are printed.
func absolutePaths(t *testing.T, c *Config) {
	t.Helper()
	fix := func(list ...*string) {
		for _, p := range list {
			if *p != "" && *p != "-" {
				*p = absolutePath(*p)
			}
		}
	}
	fix(&c.Checkpoint.Path, &c.HTTP.Tokens, &c.HTTP.Audit, &c.HTTP.TLS.Certificate, &c.HTTP.TLS.Key, &c.HTTP.TLS.ClientCA)
	for i := range c.Rules {
		fix(&c.Rules[i])
	}
	for _, s := range c.Streams {
		if s.File != nil {
			for i := range s.File.Paths {
				fix(&s.File.Paths[i])
			}
		}
		if s.Kafka != nil {
			fix(&s.Kafka.TLS.CA, &s.Kafka.TLS.Certificate, &s.Kafka.TLS.Key)
		}
	}
	for _, s := range c.Sinks {
		if s.File != nil {
			fix(&s.File.Path)
		}
		if s.Redis != nil {
			fix(&s.Redis.TLS.CA, &s.Redis.TLS.Certificate, &s.Redis.TLS.Key)
		}
		if s.Webhook != nil {
			fix(&s.Webhook.CA)
		}
	}
}

// A variable stands above the file, a flag above the variable.
func TestLayers(t *testing.T) {
	c := loadGood(t, "testdata/good/everything.yaml", Layers{
		Environment: []string{
			"CEPD_CHECKPOINT_INTERVAL=2s", "CEPD_CHECKPOINT_KEEP=7", "CEPD_STREAMS_AUTH_TIME=[a, 'b,2006-01-02,UTC']", "CEPD_STREAMS_AUTH_SOURCE_FILE_PATHS=x,y",
			"CEPD_SINKS_BUS_REDIS_PASSWORD=from the environment", "CEPD_CI=1", "HOME=/", "CEPD_DEAD_LETTERS=out", "CEPD_CHECKPOINT_PATH=here",
		},
		Set: []string{"checkpoint.interval=3s", "log.level=warn", "streams.pipe.time=t"},
	})
	got := []any{
		c.Checkpoint.Interval.String(), c.Checkpoint.Keep, c.Streams[0].Time, c.Streams[0].File.Paths, string(c.Sinks[3].Redis.Password.Bytes()),
		c.DeadLetters, c.Checkpoint.Path, c.Log.Level, c.Streams[2].Time,
	}
	want := []any{"3s", 7, []string{"a", "b,2006-01-02,UTC"}, []string{"x,y"}, "from the environment", "out", "here", Warn, []string{"t"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	text := printed(t, c, true)
	for _, want := range []string{
		"  interval: 3s  # --set\n", "  keep: 7  # CEPD_CHECKPOINT_KEEP\n", "      # password is set by CEPD_SINKS_BUS_REDIS_PASSWORD\n",
		"# everything.yaml:10\n", "# default\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "from the env") {
		t.Errorf("the secret is printed:\n%s", text)
	}
}

// Whatever is said below http, wherever it is, is about the listener; nothing else is.
func TestSaysListener(t *testing.T) {
	const text = "version: 1\nstreams: {a: {source: {file: {paths: [a]}}, time: t}}\nsinks: {out: {file: {path: out}}}\n"
	for _, c := range []struct {
		more  string
		above Layers
		want  bool
	}{
		{"", Layers{}, false},
		{"reload: {watch: false}\n", Layers{Environment: []string{"CEPD_LOG_LEVEL=warn"}, Set: []string{"job=other"}}, false},
		{"http: {}\n", Layers{}, false},
		{"http: {listen: 127.0.0.1:8642}\n", Layers{}, true},
		{"http: {rate: 7}\n", Layers{}, true},
		{"", Layers{Environment: []string{"CEPD_HTTP_LISTEN=127.0.0.1:8642"}}, true},
		{"", Layers{Set: []string{"http.insecure=true"}}, true},
	} {
		read, diagnostics := Parse("cepd.yaml", []byte(text+c.more), c.above)
		if read == nil {
			t.Fatal(diagnostics.Error())
		}
		if got := read.SaysListener(); got != c.want {
			t.Errorf("%q, %v: %v", c.more, c.above, got)
		}
	}
}

// Load names what it cannot read.
func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, bytes.Repeat([]byte("#\n"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{filepath.Join(dir, "none.yaml"): "none.yaml: no such file", dir: "is a directory", large: "has 2097152 bytes"} {
		c, _, err := Load(file, Layers{})
		if c != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
