package filesource_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/cep/source/sourcetest"
)

func follower(t *testing.T, c filesource.FollowerConfig) *filesource.Follower {
	t.Helper()
	c.Stream, c.Partitions = "s", source.NewPartitions("s")
	f, err := filesource.NewFollower(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRunning(t *testing.T) {
	for name, paths := range map[string][]string{
		"file": {"app.log"}, "directory": {""}, "pattern": {"*.log"},
	} {
		t.Run(name, func(t *testing.T) {
			sourcetest.RunSource(t, func(t *testing.T) sourcetest.Running {
				dir := t.TempDir()
				log := filepath.Join(dir, "app.log")
				return sourcetest.Running{
					Open: func(t *testing.T) source.Source {
						return follower(t, filesource.FollowerConfig{Paths: []string{filepath.Join(dir, paths[0])}})
					},
					Append: func(t *testing.T, records ...string) { appendTo(t, log, strings.Join(records, "\n")+"\n") },
					End: func(t *testing.T) {
						if err := os.Remove(log); err != nil {
							t.Error(err)
						}
					},
				}
			})
		})
	}
}
