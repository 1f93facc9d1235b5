package kafkatest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is missing is named in one line with what to do about it; what is there is used.
func TestRuntimeSaysWhatIsMissing(t *testing.T) {
	const (
		java17 = `echo 'openjdk version "17.0.15" 2025-04-15' >&2`
		java11 = `echo 'openjdk version "11.0.2" 2019-01-15' >&2`
		copies = `for a; do case $a in -DoutputDirectory=*) echo jar >"${a#*=}/kafka.jar";; esac; done`
		fails  = `echo '[ERROR] Could not resolve org.apache.kafka:kafka_2.13:jar:4.4.0'; echo '[ERROR] more'; exit 1`
	)
	for _, c := range []struct {
		name, java, mvn, missing, err string
	}{
		{name: "no Java", missing: "apt-get install openjdk-17-jre-headless"},
		{name: "an old Java", java: java11, missing: "Java 11 is too old"},
		{name: "a Java that fails", java: "echo broken; exit 1", err: "broken"},
		{name: "a Java without a version", java: "echo nothing", err: "not a version"},
		{name: "no Maven", java: java17, missing: "apt-get install maven"},
		{name: "a registry without the jars", java: java17, mvn: fails, missing: "): Could not resolve org.apache.kafka:kafka_2.13:jar:4.4.0"},
		{name: "all", java: java17, mvn: copies},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, bin := t.TempDir(), t.TempDir()
			put := func(file, text string) {
				t.Helper()
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			put(filepath.Join(root, "go.mod"), "module github.com/cepd/cepd\n")
			put(filepath.Join(root, "test", "kafka", "pom.xml"), "<kafka.version>9.8</kafka.version>")
			for name, script := range map[string]string{"java": c.java, "mvn": c.mvn} {
				if script != "" {
					put(filepath.Join(bin, name), "#!/bin/sh\n"+script+"\n")
				}
			}
			t.Setenv("PATH", bin)
			t.Chdir(filepath.Join(root, "test"))
			r, err := findRuntime(t.Context())
			m := (*Missing)(nil)
			switch {
			case c.missing != "":
				if !errors.As(err, &m) || !strings.Contains(m.Text, c.missing) || strings.Contains(m.Text, "\n") {
					t.Fatalf("%v, not what is missing: %s", err, c.missing)
				}
				if left, _ := filepath.Glob(filepath.Join(root, "bin", "kafka", "*")); len(left) != 0 {
					t.Errorf("%v is left behind", left)
				}
			case c.err != "":
				if err == nil || errors.As(err, &m) || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%v, not an error with %q", err, c.err)
				}
			default:
				if err != nil {
					t.Fatal(err)
				}
				if r.kafka != "9.8" {
					t.Errorf("the version is %q", r.kafka)
				}
				if _, err := os.Stat(filepath.Join(r.lib, "kafka.jar")); err != nil {
					t.Error(err)
				}
				put(filepath.Join(bin, "mvn"), "#!/bin/sh\nexit 1\n")
				if _, err := findRuntime(t.Context()); err != nil {
					t.Errorf("the jars are there, but %v", err)
				}
			}
		})
	}
}
