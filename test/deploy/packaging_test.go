package deploy

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/ruletest"
)

// TestService reads the unit as systemd does, line by line, and holds it to what the program does.
func TestService(t *testing.T) {
	units := map[string]map[string][]string{}
	section := ""
	for i, line := range strings.Split(read(t, deployed+"/systemd/cepd.service"), "\n") {
		line = strings.TrimSpace(line)
		key, value, isSetting := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
			units[section] = map[string][]string{}
		case section == "" || !isSetting || !regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(key):
			t.Errorf("line %d is no setting of a section: %s", i+1, line)
		default:
			units[section][key] = append(units[section][key], value)
		}
	}
	service := units["Service"]
	for key, want := range map[string]string{
		"Type": "notify", "User": "cepd", "Restart": "on-failure", "RestartPreventExitStatus": "2 3 4", "ProtectSystem": "strict", "NoNewPrivileges": "yes",
		"ExecStart": "/usr/bin/cepd run -c /etc/cepd/cepd.yaml", "ExecReload": "/bin/kill -HUP $MAINPID",
	} {
		if got := service[key]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s=%v, want %s", key, got, want)
		}
	}
	if len(units["Unit"]["Description"]) != 1 || len(units["Install"]["WantedBy"]) != 1 {
		t.Error("a unit has a description and is wanted by something")
	}
	for key, values := range service {
		if len(values) > 1 {
			t.Errorf("%s stands %d times", key, len(values))
		}
	}
	// An end in good order takes 25 seconds, and a job counts as stuck after a minute.
	for key, least := range map[string]time.Duration{"TimeoutStopSec": 26 * time.Second, "WatchdogSec": 61 * time.Second} {
		if d, err := time.ParseDuration(service[key][0] + "s"); err != nil || d < least {
			t.Errorf("%s=%s, at least %s is needed", key, service[key], least)
		}
	}
}

// TestDockerfile reads the instructions of the image.
func TestDockerfile(t *testing.T) {
	var stages []string
	last := map[string]string{}
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "ARG", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD", "LABEL", "ENV"}
	for i, line := range strings.Split(read(t, deployed+"/docker/Dockerfile"), "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "" || word[0] == '#':
			continue
		case !slices.Contains(known, word):
			t.Errorf("line %d: %s is no instruction", i+1, word)
		case word == "FROM":
			image, name, _ := strings.Cut(rest, " AS ")
			if !strings.Contains(image, ":") || strings.HasSuffix(image, ":latest") {
				t.Errorf("line %d: %s has no fixed tag", i+1, image)
			}
			stages = append(stages, name)
			last = map[string]string{"FROM": image}
			continue
		}
		if from, ok := strings.CutPrefix(rest, "--from="); ok && word == "COPY" {
			if name, _, _ := strings.Cut(from, " "); !slices.Contains(stages, name) {
				t.Errorf("line %d: there is no stage %s", i+1, name)
			}
		}
		last[word] = rest
	}
	if len(stages) != 2 || !strings.Contains(last["FROM"], "distroless/static") || !strings.HasSuffix(last["FROM"], ":nonroot") {
		t.Errorf("the image is made of %s in %d stages", last["FROM"], len(stages))
	}
	if last["USER"] == "" || strings.HasPrefix(last["USER"], "0") || strings.HasPrefix(last["USER"], "root") {
		t.Errorf("it runs as %q", last["USER"])
	}
	if last["RUN"] != "" {
		t.Error("there is no shell in it that could run anything")
	}
	for _, word := range []string{"ENTRYPOINT", "CMD", "HEALTHCHECK"} {
		_, list, ok := strings.Cut(last[word], "[")
		var args []string
		if err := json.Unmarshal([]byte("["+list), &args); !ok || err != nil {
			t.Errorf("%s needs no shell only as a list: %s", word, last[word])
		}
		if word == "HEALTHCHECK" && (len(args) < 2 || args[1] != "healthcheck") {
			t.Errorf("its health is checked by %v", args)
		}
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../../go.mod"))
	if !strings.Contains(read(t, deployed+"/docker/Dockerfile"), "FROM golang:"+goVersion[1]+"-") {
		t.Errorf("it is not built with Go %s", goVersion[1])
	}
}

// TestCompose: what the compose file names is there.
func TestCompose(t *testing.T) {
	dir := deployed + "/docker"
	root := readYAML(t, dir+"/compose.yaml")
	services := at(root, "services")
	for name, s := range yamlnode.Pairs(services) {
		image, build := text(s, "image"), at(s, "build")
		switch {
		case (image == "") == (build == nil):
			t.Errorf("%s has an image or is built", name.Value)
		case build != nil:
			if _, err := os.Stat(filepath.Join(dir, text(build, "context"), text(build, "dockerfile"))); err != nil {
				t.Error(err)
			}
		case !regexp.MustCompile(`^[a-z/]+:v?\d+(\.\d+)+$`).MatchString(image):
			t.Errorf("%s: the image %s has no fixed version", name.Value, image)
		}
		if needs := at(s, "depends_on"); needs != nil {
			for on, how := range yamlnode.Pairs(needs) {
				if text(how, "condition") != "service_healthy" || at(services, on.Value, "healthcheck") == nil {
					t.Errorf("%s waits for %s, which says nothing of its health", name.Value, on.Value)
				}
			}
		}
		for _, v := range texts(at(s, "volumes")) {
			from, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(from, ".") {
				if _, err := os.Stat(filepath.Join(dir, from)); err != nil {
					t.Errorf("%s: %v", name.Value, err)
				}
			} else if at(root, "volumes", from) == nil {
				t.Errorf("%s: there is no volume %s", name.Value, from)
			}
		}
		for _, p := range texts(at(s, "ports")) {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: the port %s is open to everybody", name.Value, p)
			}
		}
	}
	if grace := text(services, "cepd", "stop_grace_period"); grace != "30s" {
		t.Errorf("an end in good order takes up to 25 seconds, %s are left", grace)
	}
}

// TestConfigurations loads those that are deployed, and runs the tests of their rules.
func TestConfigurations(t *testing.T) {
	for _, name := range []string{"docker/cepd.yaml", "systemd/cepd.yaml"} {
		c, diagnostics, err := config.Load(filepath.Join(deployed, name), config.Layers{})
		if err != nil || c == nil || len(diagnostics) > 0 {
			t.Fatal(name, err, diagnostics)
		}
	}
	set, diagnostics, err := rules.Load([]string{deployed + "/docker/rules"})
	if err != nil || set == nil || len(diagnostics) > 0 {
		t.Fatal(err, diagnostics)
	}
	results := ruletest.Run(set, nil)
	if len(results) < 2 {
		t.Fatal(len(results))
	}
	for _, r := range results {
		if !r.Passed() {
			t.Errorf("%s: %s", r.Name(), r.Failure)
		}
	}
}

// pretender is a program that has what the scripts ask cepd for, and a compiler that "makes" it.
func pretender(t *testing.T) (program, compiler string) {
	t.Helper()
	dir := t.TempDir()
	program, compiler = filepath.Join(dir, "cepd"), filepath.Join(dir, "compile")
	for file, script := range map[string]string{
		program:  "#!/bin/sh\ncase $1 in\nman) echo page >\"$2/cepd.1\" ;;\ncompletion) echo \"complete $2\" ;;\nversion) echo 'cepd pretended' ;;\n*) exit 2 ;;\nesac\n",
		compiler: "#!/bin/sh\n[ \"$1\" = -o ] || exit 2\nsed \"s/pretended/pretended $GOOS $GOARCH/\" " + program + " >\"$2\" && chmod 700 \"$2\"\n",
	} {
		if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return program, compiler
}

// script runs one of the scripts at the root of the module.
func script(t *testing.T, env []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", args...)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// TestInstall installs into a directory, twice: what runs is not written over.
func TestInstall(t *testing.T) {
	program, _ := pretender(t)
	dest := t.TempDir()
	env := []string{"BINARY=" + program, "PREFIX=/opt/cepd", "DESTDIR=" + dest}
	script(t, env, "deploy/install.sh")
	before, err := os.Stat(dest + "/opt/cepd/bin/cepd")
	if err != nil || before.Mode().Perm() != 0o755 {
		t.Fatal(before, err)
	}
	script(t, env, "deploy/install.sh")
	if after, err := os.Stat(dest + "/opt/cepd/bin/cepd"); err != nil || os.SameFile(before, after) {
		t.Error("the binary was written over", err)
	}
	var got []string
	err = filepath.Walk(dest, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			rel, _ := filepath.Rel(dest+"/opt/cepd", path)
			got = append(got, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"bin/cepd", "lib/systemd/system/cepd.service", "lib/sysusers.d/cepd.conf", "share/bash-completion/completions/cepd", "share/doc/cepd/LICENSE",
		"share/doc/cepd/alerts.yaml", "share/doc/cepd/cepd.yaml", "share/fish/vendor_completions.d/cepd.fish", "share/man/man1/cepd.1", "share/zsh/site-functions/_cepd",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("installed (-want +got):\n%s", d)
	}
	if unit := read(t, dest+"/opt/cepd/lib/systemd/system/cepd.service"); !strings.Contains(unit, "ExecStart=/opt/cepd/bin/cepd run") {
		t.Error("the service starts another program")
	}
}

// TestRelease makes the archives of two platforms twice: the same bytes come out.
func TestRelease(t *testing.T) {
	_, compiler := pretender(t)
	var sums []string
	dir := ""
	for range 2 {
		dir = t.TempDir()
		script(t, []string{"STATIC=" + compiler, "VERSION=1.2.3", "PLATFORMS=linux/amd64 darwin/arm64", "SOURCE_DATE_EPOCH=1700000000"}, "deploy/release.sh", dir+"/release")
		sums = append(sums, read(t, dir+"/release/SHA256SUMS"))
	}
	if d := cmp.Diff(sums[0], sums[1]); d != "" {
		t.Errorf("two releases of one commit differ:\n%s", d)
	}
	f, err := os.Open(dir + "/release/cepd-1.2.3-linux-amd64.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*tar.Header{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1_700_000_000 {
			t.Errorf("%s belongs to %d:%d, of %s", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		files[strings.TrimPrefix(h.Name, "cepd-1.2.3-linux-amd64/")] = h
	}
	for _, name := range []string{"cepd", "LICENSE", "README.md", "man/cepd.1", "completions/cepd.zsh", "deploy/systemd/cepd.service", "deploy/prometheus/alerts.yaml"} {
		if files[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	if h := files["cepd"]; h != nil && h.Mode&0o111 == 0 {
		t.Error("the program cannot be run")
	}
}
