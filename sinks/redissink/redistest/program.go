package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Env names further server programs, as a list of paths like PATH. test/redis/servers.sh installs some and prints it.
const Env = "CEPD_REDIS_SERVERS"

// Program is a server that can be started.
type Program struct {
	Path string
	// Name is what it calls itself, Redis or Valkey; Version its version, of which Major and Minor are the first two numbers.
	Name, Version string
	Major, Minor  int
}

// String is the name and version, fit for the name of a test.
func (p Program) String() string { return p.Name + "-" + p.Version }

// AtLeast says whether it is Redis of that version or later, or any Valkey, which began as Redis 7.2.
func (p Program) AtLeast(major, minor int) bool {
	return p.Name == "Valkey" || p.Major > major || p.Major == major && p.Minor >= minor
}

var versionLine = regexp.MustCompile(`^(Redis|Valkey) server v=((\d+)\.(\d+)\S*)`)

// programs is what is there. It is looked up once, because each lookup starts the programs to ask for their versions.
var programs = sync.OnceValues(func() ([]Program, error) {
	var paths []string
	for _, name := range []string{"redis-server", "valkey-server"} {
		if p, err := exec.LookPath(name); err == nil {
			paths = append(paths, p)
		}
	}
	for _, p := range filepath.SplitList(os.Getenv(Env)) {
		if p != "" {
			paths = append(paths, p)
		}
	}
	var found []Program
	seen := map[string]bool{}
	for _, path := range paths {
		out, err := exec.Command(path, "--version").Output()
		if err != nil {
			return nil, fmt.Errorf("%s --version: %w (a path in %s must be a server program)", path, err, Env)
		}
		m := versionLine.FindStringSubmatch(string(out))
		if m == nil {
			return nil, fmt.Errorf("%s --version says %q, not Redis or Valkey", path, strings.TrimSpace(string(out)))
		}
		p := Program{Path: path, Name: m[1], Version: m[2]}
		p.Major, _ = strconv.Atoi(m[3])
		p.Minor, _ = strconv.Atoi(m[4])
		if !seen[p.String()] {
			seen[p.String()] = true
			found = append(found, p)
		}
	}
	return found, nil
})

// Programs lists the servers of this machine: redis-server and valkey-server in PATH, and those that Env names. A test that
// finds none is skipped.
func Programs(t testing.TB) []Program {
	t.Helper()
	found, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Skip("no redis-server: apt-get install redis-server, or name one in " + Env)
	}
	return found
}

// Default is the server on which a test runs that does not differ by version: the first one.
func Default(t testing.TB) Program {
	t.Helper()
	return Programs(t)[0]
}

// Each runs a test on every server, at the same time: such tests wait more than they compute.
func Each(t *testing.T, f func(t *testing.T, p Program)) {
	t.Helper()
	t.Parallel()
	for _, p := range Programs(t) {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			f(t, p)
		})
	}
}
