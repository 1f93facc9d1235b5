package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

func Example() {
	c, diagnostics := Parse("cepd.yaml", []byte(`
version: 1
streams:
  auth:
    source: {file: {paths: ["logs/*.jsonl"]}}
    lateness: 10s
sinks:
  alerts: {file: {path: alerts.jsonl}}
`), Layers{Environment: []string{"CEPD_STREAMS_AUTH_LATENESS=30s"}})
	fmt.Println(len(diagnostics), c.Streams[0].Name, c.Streams[0].Lateness, c.Sinks[0].Guarantee)

	_, diagnostics = Parse("cepd.yaml", []byte("version: 1\nstreams: {auth: {lateness: 10}}\n"), Layers{})
	for _, d := range diagnostics {
		fmt.Println(d.Error())
	}
	// Output:
	// 0 auth 30s exactly_once
	// cepd.yaml:1:1: the configuration needs the key "sinks" [CEP0907]
	// cepd.yaml:2:11: the stream "auth" needs the key "source" [CEP0907]
	// cepd.yaml:2:28: "10" is no duration [CEP0909]
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]string{
		"64MiB": "67108864", "1GiB": "1073741824", "512B": "512", "0B": "0", "3TiB": "3298534883328",
		"64MB": "write 64MiB", "64M": "write 64MiB", "64mib": "write 64MiB", "1g": "write 1GiB", "5": "add a unit: 5MiB or 5B",
		"": "sizes are", "MiB": "sizes are", "-1B": "sizes are", "1.5GiB": "sizes are", "9000000000TiB": "sizes are", "B": "sizes are", "99999999999999999999": "sizes are",
	} {
		n, err := ParseSize(text)
		got := fmt.Sprint(n)
		if err != nil {
			got = err.Error()
		}
		if len(got) < len(want) || got[:len(want)] != want || err == nil && got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, math.MaxInt64).Draw(t, "n")
		if rapid.Bool().Draw(t, "round") {
			n = n >> 30 << 20
		}
		if got, err := ParseSize(FormatSize(n)); err != nil || got != n {
			t.Fatalf("%d is written %s, which reads as %d, %v", n, FormatSize(n), got, err)
		}
	})
}

// FuzzParse holds hostile texts to it: no panic, a place for every mistake, and what is printed reads as the same.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal("no seeds", err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, "CEPD_SHARDS=3", "log.level=warn")
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, variable, flag string) {
		c, diagnostics := Parse("testdata/good/cepd.yaml", data, Layers{Environment: []string{variable}, Set: []string{flag}})
		if (c == nil) != (len(diagnostics.Errors()) > 0) {
			t.Fatalf("configuration %t with %d errors", c != nil, len(diagnostics.Errors()))
		}
		for _, d := range diagnostics {
			if d.Line < 1 || d.Column < 1 || d.Length < 1 || d.Code == "" || d.Message == "" {
				t.Fatalf("%+v", d)
			}
		}
		_ = diagnostics.Error()
		if c == nil {
			return
		}
		text := printed(t, c, false)
		again, diagnostics := Parse("/DIR/cepd.yaml", []byte(text), Layers{})
		if again == nil {
			for _, d := range diagnostics {
				if d.Code == codeFile {
					return // the file of a secret is not there under its printed name
				}
			}
			t.Fatalf("%s\n%s", text, diagnostics.Error())
		}
		if got := printed(t, again, false); got != text {
			t.Fatalf("printed\n%s\nreads as\n%s", text, got)
		}
	})
}
