package kafkatest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Missing says what a real broker needs and this machine has not, and how to get it.
type Missing struct{ Text string }

// Error is the text.
func (m *Missing) Error() string { return m.Text }

// javaMin is the first version of Java that runs a broker of Kafka 4.
const javaMin = 17

// fetching is how long the jars may take to come: they are 43 MB.
const fetching = 5 * time.Minute

var (
	javaVersion  = regexp.MustCompile(`version "(\d+)`)
	kafkaVersion = regexp.MustCompile(`<kafka\.version>([^<]+)</kafka\.version>`)
)

// runtime is what a broker runs on.
type runtime struct {
	java string // the program
	lib  string // the directory of the jars
	kafka,
	archive string // the version of Kafka, and the file of classes that are loaded already
}

// findRuntime looks for Java, and for the jars that test/kafka/pom.xml lists, which it lets Maven fetch into bin/kafka where
// they are not there. Each list has a directory of its own, so that a new one is fetched anew.
func findRuntime(ctx context.Context) (*runtime, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, &Missing{"no Java for a Kafka broker: apt-get install openjdk-17-jre-headless"}
	}
	said, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s -version: %w: %s", java, err, firstLine(string(said)))
	}
	m := javaVersion.FindSubmatch(said)
	if m == nil {
		return nil, fmt.Errorf("%s -version says %q, not a version", java, firstLine(string(said)))
	}
	if v, _ := strconv.Atoi(string(m[1])); v < javaMin {
		return nil, &Missing{fmt.Sprintf("Java %s is too old for a Kafka broker: apt-get install openjdk-%d-jre-headless", m[1], javaMin)}
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	pom := filepath.Join(root, "test", "kafka", "pom.xml")
	list, err := os.ReadFile(pom)
	if err != nil {
		return nil, fmt.Errorf("the list of jars: %w", err)
	}
	sum := sha256.Sum256(list)
	r := &runtime{java: java, lib: filepath.Join(root, "bin", "kafka", hex.EncodeToString(sum[:6]))}
	r.archive = filepath.Join(r.lib, "classes.jsa")
	if v := kafkaVersion.FindSubmatch(list); v != nil {
		r.kafka = string(v[1])
	}
	if _, err := os.Stat(r.lib); err == nil {
		return r, nil
	}
	return r, r.fetch(ctx, pom)
}

// fetch lets Maven copy the jars into a directory that is renamed when it is complete: of two processes that fetch at the same
// time neither sees half of them.
func (r *runtime) fetch(ctx context.Context, pom string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return &Missing{"no jars of a Kafka broker and no Maven to fetch them: apt-get install maven"}
	}
	if err := os.MkdirAll(filepath.Dir(r.lib), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(r.lib), "fetching-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(ctx, fetching)
	defer cancel()
	said, err := exec.CommandContext(ctx, mvn, "--batch-mode", "--quiet", "--no-transfer-progress", "-Dstyle.color=never", "--file", pom,
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir).CombinedOutput()
	if err != nil {
		why := firstLine(string(said))
		if ctx.Err() != nil {
			why = fmt.Sprintf("not there after %s", fetching)
		}
		return &Missing{fmt.Sprintf("Maven cannot fetch the jars of a Kafka broker (%s): %s", pom, why)}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := os.Rename(dir, r.lib); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keep the jars: %w", err)
	}
	return nil
}

// command is Java with a class of the jars. The collector with the least threads and only the first compiler: a broker of a
// test lives for seconds, and shares its processors with the test.
func (r *runtime) command(o Options, config string, flags []string, class string, args ...string) *exec.Cmd {
	a := []string{
		fmt.Sprintf("-Xmx%dm", o.HeapMiB), "-XX:+UseSerialGC", "-Xlog:disable",
		"-Dlog4j2.configurationFile=" + config, "-cp", r.lib + "/*",
	}
	if !o.Compilers {
		a = append(a, "-XX:TieredStopAtLevel=1")
	}
	if i, err := os.Stat(r.archive); err == nil && i.Size() > 0 {
		a = append(a, "-XX:SharedArchiveFile="+r.archive) // one of another Java is ignored
	}
	a = append(append(a, flags...), class)
	return exec.Command(r.java, append(a, args...)...)
}

// moduleRoot is the directory of go.mod above the working directory, which is that of the package in a test.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if b, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil && strings.HasPrefix(string(b), "module github.com/cepd/cepd\n") {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not below the checkout of cepd, where the jars of a Kafka broker are kept", dir)
		}
	}
}

// firstLine is the first line that says something.
func firstLine(s string) string {
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "[ERROR]"))
		if line != "" {
			return line
		}
	}
	return "it says nothing"
}
