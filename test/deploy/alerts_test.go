package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cepd/cepd/internal/yamlnode"
)

// where the things that are checked lie.
const (
	deployed = "../../deploy"
	docs     = "../../docs"
)

// read returns a file as text.
func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// readYAML returns the only document of a file.
func readYAML(t *testing.T, name string) *yamlnode.Node {
	t.Helper()
	file, problems := yamlnode.Parse(name, []byte(read(t, name)))
	if len(problems) > 0 || len(file.Documents) != 1 {
		t.Fatalf("%s: %v, %d documents", name, problems, len(file.Documents))
	}
	return file.Documents[0]
}

// at returns what stands under keys, one in the other; nil: nothing does.
func at(n *yamlnode.Node, keys ...string) *yamlnode.Node {
	for _, key := range keys {
		var found *yamlnode.Node
		if n != nil && n.Kind == yamlnode.Map {
			for k, v := range yamlnode.Pairs(n) {
				if k.Value == key {
					found = v
				}
			}
		}
		n = found
	}
	return n
}

// text is the scalar under keys, "" without one.
func text(n *yamlnode.Node, keys ...string) string {
	if n = at(n, keys...); n == nil {
		return ""
	}
	return n.Value
}

// texts are the scalars of a list.
func texts(n *yamlnode.Node) (list []string) {
	if n != nil {
		for _, item := range n.Content {
			list = append(list, item.Value)
		}
	}
	return list
}

// metricNames are those that docs/metrics.md lists, which a test of cmd/cepd makes of what is told.
func metricNames(t *testing.T) map[string]bool {
	names := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(cepd_[a-z_]+)` \\| (counter|gauge|histogram) ").FindAllStringSubmatch(read(t, docs+"/metrics.md"), -1) {
		names[row[1]] = true
		if row[2] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[row[1]+suffix] = true
			}
		}
	}
	if len(names) < 50 {
		t.Fatalf("docs/metrics.md lists %d metrics", len(names))
	}
	return names
}

// TestAlertRules: each alert asks for metrics that there are, and has a section that says what to do.
func TestAlertRules(t *testing.T) {
	known := metricNames(t)
	runbook := read(t, docs+"/operations.md")
	metric := regexp.MustCompile(`\b(cepd_[a-z_]+)\b`)
	alerts := 0
	for _, group := range at(readYAML(t, deployed+"/prometheus/alerts.yaml"), "groups").Content {
		for _, rule := range at(group, "rules").Content {
			alerts++
			name := text(rule, "alert")
			used := metric.FindAllString(text(rule, "expr"), -1)
			if len(used) == 0 && !strings.HasPrefix(text(rule, "expr"), "up{") {
				t.Errorf("%s asks for no metric", name)
			}
			for _, m := range used {
				if !known[m] {
					t.Errorf("%s: there is no metric %s", name, m)
				}
			}
			if s := text(rule, "labels", "severity"); s != "critical" && s != "warning" {
				t.Errorf("%s: severity %q", name, s)
			}
			if text(rule, "annotations", "summary") == "" {
				t.Errorf("%s has no summary", name)
			}
			anchor := "#" + strings.ToLower(name)
			if url := text(rule, "annotations", "runbook_url"); !strings.HasSuffix(url, "docs/operations.md"+anchor) {
				t.Errorf("%s: its runbook is %q", name, url)
			}
			_, section, ok := strings.Cut(runbook, "\n### "+name+"\n")
			section, _, _ = strings.Cut(section, "\n### ")
			if !ok || !strings.Contains(section, "**Means**") || !strings.Contains(section, "**Do**") {
				t.Errorf("docs/operations.md does not say what %s means and what to do", name)
			}
		}
	}
	if alerts < 10 {
		t.Errorf("%d alerts", alerts)
	}
}

// promtool finds the program, or skips.
func promtool(t *testing.T) string {
	t.Helper()
	own, err := filepath.Abs("../../bin/promtool")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{own, "promtool"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no promtool: make deps fetches it where there are packages of Debian; or put that of Prometheus into PATH")
	return ""
}

// TestPromtool has Prometheus' own tool check the alert rules, play their tests, and read the configuration of the compose file.
func TestPromtool(t *testing.T) {
	tool := promtool(t)
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", "prometheus/alerts.yaml"},
		{"test", "rules", "prometheus/alerts_test.yaml"},
		{"check", "config", "--syntax-only", "docker/prometheus.yaml"},
	} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = deployed
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
	}
}

// TestAlertTests: each alert has a case in which it fires and one in which it does not.
func TestAlertTests(t *testing.T) {
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range at(readYAML(t, deployed+"/prometheus/alerts_test.yaml"), "tests").Content {
		for _, c := range at(test, "alert_rule_test").Content {
			if len(at(c, "exp_alerts").Content) > 0 {
				fires[text(c, "alertname")] = true
			} else {
				quiet[text(c, "alertname")] = true
			}
		}
	}
	for _, group := range at(readYAML(t, deployed+"/prometheus/alerts.yaml"), "groups").Content {
		for _, rule := range at(group, "rules").Content {
			if name := text(rule, "alert"); !fires[name] || !quiet[name] {
				t.Errorf("%s: a case in which it fires %t, one in which it does not %t", name, fires[name], quiet[name])
			}
		}
	}
}
