package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/cep/source/httpsource"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/rulesapi"
	"github.com/cepd/cepd/sinks"
)

var update = flag.Bool("update", false, "write the generated pages anew")

// toldStatus is a job of which everything that metrics tell is there.
func toldStatus(now time.Time) wholeStatus {
	ago := func(d time.Duration) cep.Time {
		t, _ := cep.TimeOf(now.Add(-d))
		return t
	}
	return wholeStatus{
		Status: job.Status{
			At: now, Job: "j", Phase: "running",
			Epoch: job.EpochStatus{Committed: 41, At: now.Add(-2 * time.Second), Error: "no space left on device"},
			Streams: []job.StreamStatus{{
				StreamSummary: engine.StreamSummary{Name: "auth", Events: 100, Late: 3, Returned: 2, Future: 1, Bad: map[string]uint64{"bad json": 4}, Behind: cep.Duration(7 * time.Second)},
				Watermark:     ago(9 * time.Second), Buffered: job.Limit{Count: 12, Bytes: 3400}, Paused: true, Open: 3, Idle: 1, Absent: 1,
				List: []job.PartitionStatus{
					{Name: "app.log", Clock: ago(4 * time.Second), Bytes: 10, Total: 100, End: -1},
					{Name: "app.log", Clock: ago(6 * time.Second), Bytes: 10, Total: 20, End: -1},
					{Name: "auth/0", Clock: cep.BeforeAll, Read: 5, End: 9, Total: -1},
				},
			}, {StreamSummary: engine.StreamSummary{Name: "web"}, Watermark: cep.BeforeAll}},
			Rules: []engine.RuleSummary{
				{
					ID: "brute", Visible: 50, Keyed: 40, Opened: 20, Open: 4, Keys: 3, Draining: 2, Matched: 9, Timeouts: 1, Alerts: 5, Silenced: 2, Suppressed: 1, Counted: 1,
					Errors: 6, Refused: 1, TooLong: 2, Braked: 3, OpenAlerts: 1, LastMatch: ago(time.Hour), Evaluation: 3 * time.Second,
					Taken: []engine.Count{{Name: "fail", N: 30}, {Name: "ok", N: 9}},
					Ended: []engine.Count{{Name: "completed", N: 9}, {Name: "expired", N: 5}, {Name: "killed", N: 1}, {Name: "pruned", N: 1}},
				},
				{ID: "gone-stream", Skipped: "nothing is read", LastMatch: cep.BeforeAll},
				{ID: "quiet", Shadow: true, LastMatch: cep.BeforeAll},
			},
			Silences: []engine.SilenceSummary{{ID: "a"}, {ID: "b", Over: true}, {ID: "c", Over: true}},
			Sinks: []job.SinkStatus{{
				Status: sinks.Status{
					Name: "bus", Published: sinks.Progress{Sequence: 30}, Acknowledged: 28, Error: "refused", Batches: 3, Messages: 30, Bytes: 9000, Retries: 2, Rewinds: 1, Rejected: 1, Lost: 1,
				},
				Waiting: job.Limit{Count: 7, Bytes: 700},
			}},
			Alerts:   job.Tally{Alerts: 5, Unsent: 1, Letters: 2, Excess: 1},
			Degraded: []job.Degradation{{What: "sink", Name: "bus", Reason: "refused"}, {What: "epoch", Reason: "no space left on device"}},
		},
		Logs: []logStatus{{Stream: "web", Accepted: 10, Duplicates: 2, Differing: 1, Full: 1, Failed: 3, Reused: 4, Refused: map[httpsource.Reason]uint64{httpsource.BadJSON: 6}, Bytes: 400, Max: 1000}},
	}
}

// toldRules is the set that toldStatus is of.
func toldRules(t testing.TB) *rules.Set {
	set, diagnostics := patterns.Load([]patterns.Source{{Name: "r.yaml", Data: []byte(`version: 1
rules:
- {id: brute, from: [auth, web], by: [user], where: a == 1}
- {id: gone-stream, from: other, where: a == 1}
- {id: off, from: auth, where: a == 1, enabled: false}
- {id: quiet, from: auth, by: [user], where: a == 1, mode: shadow}
`)}}, patterns.Options{})
	if set == nil {
		t.Fatal(diagnostics)
	}
	return &rules.Set{Set: set}
}

// sized is a store that only knows how large it is.
type sized struct{ size, free int64 }

func (s sized) Size() (size, free int64) { return s.size, s.free }

// toldMetrics are the metrics of a daemon whose job says what s does.
func toldMetrics(t testing.TB, s *wholeStatus) *metrics {
	set := toldRules(t)
	d := &daemon{config: &config.Config{
		Streams: []*config.Stream{{Name: "auth", Lateness: cep.Duration(5 * time.Second)}},
		Sinks:   []*config.Sink{{Name: "bus", Outbox: config.Outbox{Bytes: 1 << 20, Messages: 1000}}},
	}}
	d.metrics = newMetrics(d)
	d.metrics.store = sized{8192, 4096}
	d.metrics.ask = func() (wholeStatus, *rules.Set, bool) { return *s, set, true }
	d.last.status, d.last.at = *s, time.Now().Add(time.Hour) // it is fresh for long
	r := &reloader{}
	r.last = reloadStatus{OK: true, Succeeded: time.Unix(1000, 0), Count: 5, Failed: 2}
	d.running.Store(&running{reloader: r})
	d.metrics.stats = func() (rulesapi.Stats, bool) { return rulesapi.Stats{Streams: 2, Changes: 3, ChangesFailed: 1}, true }
	o := d.metrics.observe(nil)
	d.metrics.store = sized{8192, 4096}
	o.Barrier(time.Millisecond)
	o.Commit(2*time.Millisecond, 5000)
	o.Publish("bus", time.Millisecond, 3, errors.New("refused"))
	o.Swap(time.Millisecond)
	return d.metrics
}

// scrape returns the lines of cepd's own metrics.
func scrape(t testing.TB, m *metrics) string {
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	var b strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "cepd_") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// value finds the value of a series.
func value(t testing.TB, text, series string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	t.Errorf("there is no %s", series)
	return ""
}

// TestMetrics holds the metrics to the conventions of Prometheus, to their families and to what they are told.
func TestMetrics(t *testing.T) {
	s := toldStatus(time.Now())
	m := toldMetrics(t, &s)
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "cepd_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	text := scrape(t, m)
	for _, f := range m.all {
		if !strings.Contains(text, f.name) {
			t.Errorf("%s is never told", f.name)
		}
	}
	for series, want := range map[string]string{
		`cepd_ready`:                                                            "0",
		`cepd_degraded{what="sink"}`:                                            "1",
		`cepd_degraded{what="stream"}`:                                          "0",
		`cepd_config_last_reload_successful`:                                    "1",
		`cepd_config_reloads_total{result="success"}`:                           "3",
		`cepd_stream_events_total{stream="auth"}`:                               "100",
		`cepd_stream_records_invalid_total{kind="bad json",stream="auth"}`:      "4",
		`cepd_stream_lateness_max_seconds{stream="auth"}`:                       "7",
		`cepd_stream_paused{stream="auth"}`:                                     "1",
		`cepd_partition_source_lag_bytes{partition="app.log",stream="auth"}`:    "100",
		`cepd_partition_source_lag_records{partition="auth/0",stream="auth"}`:   "4",
		`cepd_log_events_refused_total{reason="failed",stream="web"}`:           "3",
		`cepd_log_events_refused_total{reason="reused",stream="web"}`:           "4",
		`cepd_log_events_refused_total{reason="bad_json",stream="web"}`:         "6",
		`cepd_log_events_differing_total{stream="web"}`:                         "1",
		`cepd_rules{state="running"}`:                                           "1",
		`cepd_rules{state="shadow"}`:                                            "1",
		`cepd_rules{state="skipped"}`:                                           "1",
		`cepd_rules{state="disabled"}`:                                          "1",
		`cepd_silences{state="over"}`:                                           "2",
		`cepd_rule_step_matches_total{rule="brute",step="fail"}`:                "30",
		`cepd_rule_starts_ended_total{reason="expired",rule="brute"}`:           "5",
		`cepd_rule_alerts_total{result="silenced",rule="brute"}`:                "2",
		`cepd_rule_evaluation_seconds_total{rule="brute"}`:                      "3",
		`cepd_api_changes_total{result="failure"}`:                              "1",
		`cepd_checkpoint_epoch`:                                                 "41",
		`cepd_checkpoint_failing`:                                               "1",
		`cepd_checkpoint_size_bytes_sum`:                                        "5000",
		`cepd_state_free_bytes`:                                                 "4096",
		`cepd_sink_outbox_messages{sink="bus"}`:                                 "7",
		`cepd_sink_outbox_limit_messages{sink="bus"}`:                           "1000",
		`cepd_sink_unacknowledged_messages{sink="bus"}`:                         "2",
		`cepd_sink_publish_duration_seconds_count{result="failure",sink="bus"}`: "1",
	} {
		if got := value(t, text, series); got != want {
			t.Errorf("%s is %s, want %s", series, got, want)
		}
	}
	for series, least := range map[string]float64{
		`cepd_stream_watermark_lag_seconds{stream="auth"}`:                        9,
		`cepd_partition_watermark_lag_seconds{partition="app.log",stream="auth"}`: 11, // the slower of two, and lateness
		`cepd_rule_watermark_lag_seconds{rule="quiet"}`:                           9,
	} {
		var got float64
		if _, err := fmt.Sscan(value(t, text, series), &got); err != nil || got < least || got > least+60 {
			t.Errorf("%s is %v (%v), want %v and what the test took", series, got, err, least)
		}
	}
	if strings.Contains(text, `cepd_rule_watermark_lag_seconds{rule="brute"}`) {
		t.Error("a rule that waits for a stream without events has no clock yet")
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		t.Error(err)
	}
}

// TestMetricsBegin: counters begin at 0 with the process, go on where a rule changes its meaning and begins to count anew, and
// grow where a process goes back to an older epoch.
func TestMetricsBegin(t *testing.T) {
	s := toldStatus(time.Now())
	m := toldMetrics(t, &s)
	m.begin(s.Status)
	expect := func(step string, want map[string]string) {
		t.Helper()
		text := scrape(t, m)
		for series, v := range want {
			if got := value(t, text, series); got != v {
				t.Errorf("%s: %s is %s, want %s", step, series, got, v)
			}
		}
	}
	const visible, fail, events, sent = `cepd_rule_events_visible_total{rule="brute"}`, `cepd_rule_step_matches_total{rule="brute",step="fail"}`,
		`cepd_stream_events_total{stream="auth"}`, `cepd_alerts_total`
	expect("at the start", map[string]string{visible: "0", fail: "0", events: "0", sent: "0"})
	s.Rules[0].Visible, s.Rules[0].Taken[0].N, s.Streams[0].Events, s.Alerts.Alerts = 57, 31, 105, 6
	expect("later", map[string]string{visible: "7", fail: "1", events: "5", sent: "1"})
	s.Rules[0].Visible, s.Rules[0].Taken[0].N = 2, 1
	expect("under another meaning", map[string]string{visible: "9", fail: "2"})
}

// TestMetricsOfManyRules: a rule beyond the limit is told with others, whose counts only grow, whichever come and go.
func TestMetricsOfManyRules(t *testing.T) {
	f := newFamilies()
	r := newRuleTallies(f)
	list := func(n int, visible uint64) []engine.RuleSummary {
		var all []engine.RuleSummary
		for i := range n {
			all = append(all, engine.RuleSummary{ID: fmt.Sprintf("r%05d", i), Visible: visible, Open: 1, LastMatch: cep.BeforeAll, Taken: []engine.Count{{Name: "s", N: visible}}})
		}
		return all
	}
	series := map[string]map[string]float64{}
	put := func(s []engine.RuleSummary) {
		clear(series)
		r.count(s, false)
		r.put(&emitter{now: time.Now(), put: func(f *family, v float64, labels ...string) {
			if series[f.name] == nil {
				series[f.name] = map[string]float64{}
			}
			series[f.name][strings.Join(labels, " ")] = v
		}}, &wholeStatus{Status: job.Status{Rules: s}}, &rules.Set{Set: &patterns.Set{}})
	}
	put(list(ruleSeriesMax+500, 10))
	for name, of := range series {
		if len(of) > 4*(ruleSeriesMax+1) {
			t.Errorf("%s has %d series", name, len(of))
		}
	}
	if got := series["cepd_rule_events_visible_total"]; len(got) != ruleSeriesMax+1 || got[otherRules] != 5000 || got["r00007"] != 10 {
		t.Errorf("%d series, others %v", len(got), got[otherRules])
	}
	if got := series["cepd_rule_starts_open"][otherRules]; got != 500 {
		t.Errorf("%v open starts of others", got)
	}
	fewer := list(ruleSeriesMax+500, 11)
	fewer = slices.Delete(fewer, 0, 1)                                // its place is free
	fewer = slices.Delete(fewer, ruleSeriesMax+98, ruleSeriesMax+498) // of those without
	fewer = append(fewer, engine.RuleSummary{ID: "new", Visible: 3, LastMatch: cep.BeforeAll})
	put(fewer)
	if got := series["cepd_rule_events_visible_total"]; len(got) != ruleSeriesMax+1 || got[otherRules] != 5000+float64(len(fewer)-ruleSeriesMax) || got["new"] != 3 {
		t.Errorf("%d series, others %v, new %v", len(got), got[otherRules], got["new"])
	}
}

// TestMetricsWhileStarting: a scrape is answered before the job has been restored.
func TestMetricsWhileStarting(t *testing.T) {
	d := &daemon{config: &config.Config{Job: "j"}}
	d.metrics = newMetrics(d)
	text := scrape(t, d.metrics)
	if value(t, text, "cepd_ready") != "0" || strings.Contains(text, "cepd_stream") {
		t.Error(text)
	}
}

// docs/metrics.md is made of the families.
func TestMetricsPage(t *testing.T) {
	const file = "../../docs/metrics.md"
	const begin, end = "<!-- metrics: made by go test ./cmd/cepd -run TestMetricsPage -update -->\n", "<!-- end of metrics -->\n"
	var b strings.Builder
	b.WriteString(begin + "| metric | kind | labels | what |\n|---|---|---|---|\n")
	for _, f := range newFamilies().all {
		labels := "`" + strings.Join(f.labels, "`, `") + "`"
		if len(f.labels) == 0 {
			labels = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kind, labels, f.help)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, more := strings.Cut(rest, end)
	if !ok || !more {
		t.Fatal("docs/metrics.md has no place for the table")
	}
	want := head + b.String() + end + tail
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, string(text)); d != "" {
		t.Errorf("docs/metrics.md (-want +got):\n%s", d)
	}
}

// BenchmarkScrape is a scrape with ten thousand rules: what the job says is made up, so that this is what the metrics cost.
func BenchmarkScrape(b *testing.B) {
	s := toldStatus(time.Now())
	one := s.Rules[0]
	s.Rules = nil
	for i := range 10_000 {
		x := one
		x.ID = fmt.Sprintf("r%05d", i)
		s.Rules = append(s.Rules, x)
	}
	m := toldMetrics(b, &s)
	size := 0
	for b.Loop() {
		w := httptest.NewRecorder()
		m.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		size = w.Body.Len()
	}
	b.ReportMetric(float64(size), "bytes/scrape")
}
