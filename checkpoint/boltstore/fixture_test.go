package boltstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
	"github.com/cepd/cepd/checkpoint/storetest"
)

// fixtureEpochs is how many epochs a fixture holds.
const fixtureEpochs = 14

// state is what history leaves behind an epoch.
func state(newest cep.Epoch) map[string]string {
	m := map[string]string{}
	for e := cep.Epoch(1); e <= newest; e++ {
		for i := range 40 {
			key := fmt.Sprintf("%d/k%d", uint8(i*7), i%13)
			if (uint64(e)+uint64(i))%5 == 0 {
				delete(m, key)
			} else {
				m[key] = fmt.Sprintf("%d of %d", i, e)
			}
		}
	}
	return m
}

// TestFixtures opens what every version has written: a file that was written once must be read for ever. A version without
// fixtures gets them by CEPD_UPDATE=1; those that are there are never written again.
func TestFixtures(t *testing.T) {
	const version = 1
	for v := 1; v <= version; v++ {
		file := filepath.Join("testdata", fmt.Sprintf("v%d.db", v))
		savepoint := filepath.Join("testdata", fmt.Sprintf("v%d.savepoint", v))
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && v == version && os.Getenv("CEPD_UPDATE") != "" {
			writeFixtures(t, file, savepoint)
		}
		t.Run(fmt.Sprintf("v%d file", v), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, boltstore.FileName), data, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, dir, boltstore.Options{})
			storetest.Cleanup(t, s)
			infos, err := s.Epochs(ctx)
			if err != nil || len(infos) != fixtureEpochs {
				t.Fatalf("epochs: %v, %v", infos, err)
			}
			for _, i := range infos {
				if got := contents(t, s, i.Epoch); !maps.Equal(got, state(i.Epoch)) {
					t.Errorf("epoch %d is another one: %v", i.Epoch, got)
				}
			}
			reads(t, s)
		})
		t.Run(fmt.Sprintf("v%d savepoint", v), func(t *testing.T) {
			data, err := os.ReadFile(savepoint)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if _, err := boltstore.Import(ctx, dir, bytes.NewReader(data), boltstore.ImportOptions{}); err != nil {
				t.Fatal(err)
			}
			s := open(t, dir, boltstore.Options{})
			storetest.Cleanup(t, s)
			if got := contents(t, s, fixtureEpochs); !maps.Equal(got, state(fixtureEpochs)) {
				t.Errorf("another state: %v", got)
			}
			reads(t, s)
		})
	}
}

// reads holds everything in a fixture that is not state, and that life goes on.
func reads(t *testing.T, s *boltstore.Store) {
	t.Helper()
	l, err := s.Outbox(ctx, "out", 0, 100, 1<<20)
	if err != nil || len(l) != 2*fixtureEpochs || string(l[len(l)-1].Data) != fmt.Sprintf("m%d.2", fixtureEpochs) {
		t.Errorf("outbox: %v, %v", l, err)
	}
	if v, err := s.Noted(ctx, "sink/out"); err != nil || string(v) != "begun" {
		t.Errorf("note %q, %v", v, err)
	}
	m, err := s.Manifest(ctx, fixtureEpochs)
	if err != nil || m.Job != "job" || len(m.Rules) != 1 || m.Sinks[0].Sequence != 3*fixtureEpochs {
		t.Fatalf("manifest %v, %v", m, err)
	}
	if data, err := s.Blob(ctx, m.Rules[0].Files[0].Hash); err != nil || string(data) != "rules 1" {
		t.Errorf("blob %q, %v", data, err)
	}
	history(t, s, fixtureEpochs+1, fixtureEpochs+2)
}

func writeFixtures(t *testing.T, file, savepoint string) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, boltstore.Options{FoldMin: 8_000})
	history(t, s, 1, fixtureEpochs-4)
	if err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	history(t, s, fixtureEpochs-3, fixtureEpochs)
	if err := s.Note(ctx, "sink/out", []byte("begun")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.Export(ctx, fixtureEpochs, &b); err != nil {
		t.Fatal(err)
	}
	data, err := snapshot(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(s.Close(), os.MkdirAll("testdata", 0o755), os.WriteFile(file, data, 0o600), os.WriteFile(savepoint, b.Bytes(), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// TestNewerVersion refuses a file of a version that is not known, and says so.
func TestNewerVersion(t *testing.T) {
	for what, c := range map[string]struct {
		path []string
		key  string
	}{
		"the file":  {[]string{"format"}, "format"},
		"a sink":    {[]string{"sinks"}, "out"},
		"a base":    {[]string{"folds"}, string(key(fixtureEpochs - 4))},
		"an epoch":  {[]string{"epochs", string(key(3))}, "m"},
		"a message": {[]string{"outbox", "out"}, string(key(20))},
		"a note":    {[]string{"notes"}, "sink/out"},
	} {
		t.Run(what, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", "v1.db"))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, boltstore.FileName), data, 0o600); err != nil {
				t.Fatal(err)
			}
			place := c.key
			switch what {
			case "a message":
				place = "out" + c.key
			case "an epoch":
				place = c.path[1]
			}
			if err := spoil(dir, c.path, func(k, v []byte) []byte {
				if string(k) != c.key {
					return nil
				}
				return boltstore.Reseal(v, []byte(place), 9)
			}); err != nil {
				t.Fatal(err)
			}
			s, err := boltstore.Open(ctx, dir, boltstore.Options{})
			if err == nil {
				_, note := s.Noted(ctx, "sink/out")
				_, letters := s.Outbox(ctx, "out", 20, 9, 99)
				err = errors.Join(note, letters, s.Close())
			}
			if !errors.Is(err, checkpoint.ErrNewer) {
				t.Errorf("a newer version: %v", err)
			}
		})
	}
}
