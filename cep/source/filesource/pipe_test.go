//go:build unix

package filesource_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/sourcetest"
)

func TestConformanceOfPipe(t *testing.T) {
	_, want := lines()
	dir, n := t.TempDir(), 0
	sourcetest.Run(t, sourcetest.Source{Want: want[:3], Once: true, Open: func() (source.Reader, error) {
		// A pipe for each reader: with one for all, a writer could be done before its reader has come.
		n++
		path := filepath.Join(dir, fmt.Sprint("pipe", n))
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			return nil, err
		}
		go func() { // ends when its reader has come: the text fits into the pipe
			_ = os.WriteFile(path, []byte(strings.Join(want[:3], "\n")), 0o600)
		}()
		return one(config(path))
	}})
}
