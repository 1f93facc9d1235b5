package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/rules/rulesapi"
)

// saying is a daemon whose job says something, for as long as a test takes.
func saying(s wholeStatus) *daemon {
	d := &daemon{config: &config.Config{}}
	d.say(s)
	return d
}

func (d *daemon) say(s wholeStatus) { d.last.status, d.last.at = s, time.Now().Add(time.Hour) }

// asked is the answer of a handler to somebody who may see the status, or to anybody.
func asked(t *testing.T, h echo.HandlerFunc, viewer bool) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	if viewer {
		r = r.WithContext(rulesapi.WithCaller(r.Context(), rulesapi.Caller{Name: "eve", Role: rulesapi.Viewer}))
	}
	w := httptest.NewRecorder()
	if err := h(echo.New().NewContext(r, w)); err != nil {
		t.Fatal(err)
	}
	return w.Code, strings.TrimSpace(w.Body.String())
}

// A process is alive whatever its destinations and disks do, unless its job no longer answers.
func TestHealthz(t *testing.T) {
	degraded := job.Status{At: time.Now(), Degraded: []job.Degradation{{What: "sink", Name: "bus", Reason: "refused"}}}
	stuck := job.Status{At: time.Now().Add(-aliveFor - time.Second)}
	stopping := saying(wholeStatus{Status: stuck})
	stopping.stopping.Store(true)
	for _, c := range []struct {
		name   string
		daemon *daemon
		code   int
		body   string
	}{
		{"starting", &daemon{config: &config.Config{}}, 200, `{"status":"ok"}`},
		{"running", saying(wholeStatus{Status: job.Status{At: time.Now()}}), 200, `{"status":"ok"}`},
		{"degraded", saying(wholeStatus{Status: degraded}), 200, `{"status":"ok"}`},
		{"stuck", saying(wholeStatus{Status: stuck}), 503, `{"status":"stuck"}`},
		{"stopping", stopping, 200, `{"status":"ok"}`},
	} {
		if code, body := asked(t, c.daemon.healthz, false); code != c.code || body != c.body {
			t.Errorf("%s: %d %s", c.name, code, body)
		}
	}
}

// What is wrong is named to those who may see the status.
func TestReady(t *testing.T) {
	if code, body := asked(t, (&daemon{config: &config.Config{}}).ready, true); code != 503 || body != `{"status":"starting"}` {
		t.Errorf("starting: %d %s", code, body)
	}
	if code, body := asked(t, saying(wholeStatus{}).ready, false); code != 200 || body != `{"status":"ready"}` {
		t.Errorf("ready: %d %s", code, body)
	}
	d := saying(wholeStatus{Status: job.Status{Degraded: []job.Degradation{{What: "stream", Name: "auth", Reason: "held back by auth/3"}, {What: "sink", Name: "bus", Reason: "dial tcp 10.0.0.7: refused"}}}})
	code, body := asked(t, d.ready, false)
	if code != 503 || body != `{"status":"degraded"}` {
		t.Errorf("to anybody: %d %s", code, body)
	}
	code, body = asked(t, d.ready, true)
	if want := `{"status":"degraded","degraded":[{"what":"stream","name":"auth","reason":"held back by auth/3"},{"what":"sink","name":"bus","reason":"dial tcp 10.0.0.7: refused"}]}`; code != 503 || body != want {
		t.Errorf("to a viewer: %d %s", code, body)
	}
	d.stopping.Store(true)
	if code, body = asked(t, d.ready, false); code != 503 || !strings.HasPrefix(body, `{"status":"stopping"`) {
		t.Errorf("stopping: %d %s", code, body)
	}
	if line := d.summary(); line != "stopping; epoch 0, 0 alerts; stream auth: held back by auth/3; sink bus: dial tcp 10.0.0.7: refused" {
		t.Error(line)
	}
}

// A limit that was used is told for some minutes, one that is in use as long as it is; what had been counted when the process
// began is not told. A brake makes the service degraded.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := func(refused, braked uint64, paused bool) wholeStatus {
			return wholeStatus{
				Status: job.Status{
					Rules:   []engine.RuleSummary{{ID: "r", Refused: refused, Braked: braked}, {ID: "other", TooLong: 3}},
					Streams: []job.StreamStatus{{StreamSummary: engine.StreamSummary{Name: "auth"}, Paused: paused}},
				},
			}
		}
		d := saying(status(7, 0, false))
		expect := func(what, code string, limits ...limitUse) {
			t.Helper()
			c := d.condition()
			if d := cmp.Diff(limits, c.Limits); d != "" || c.Status != code {
				t.Errorf("%s: %s (-want +got):\n%s", what, c.Status, d)
			}
		}
		expect("what was counted before", "ready")
		d.say(status(9, 0, true))
		expect("in use", "ready", limitUse{"limits.starts_per_key", "rule r", 2}, limitUse{Limit: "buffer.ahead", Of: "stream auth"})
		time.Sleep(limitsFor - time.Second)
		d.say(status(9, 4, false))
		expect("braked", "degraded", limitUse{limitBrakes, "rule r", 4}, limitUse{"limits.starts_per_key", "rule r", 2})
		time.Sleep(2 * time.Second)
		expect("a little later", "degraded", limitUse{limitBrakes, "rule r", 4}, limitUse{"limits.starts_per_key", "rule r", 2})
		time.Sleep(limitsFor)
		expect("long after", "ready")
		d.say(status(1, 4, false)) // another version counts anew
		expect("under another meaning", "ready", limitUse{"limits.starts_per_key", "rule r", 1})
	})
}

// The answers are JSON that programs read.
func TestReadyIsRead(t *testing.T) {
	d := saying(wholeStatus{Status: job.Status{Degraded: []job.Degradation{{What: "sink", Name: "b\"us"}}}})
	_, body := asked(t, d.ready, true)
	var c condition
	if err := json.Unmarshal([]byte(body), &c); err != nil || c.Degraded[0].Name != "b\"us" {
		t.Errorf("%v %+v", err, c)
	}
}
