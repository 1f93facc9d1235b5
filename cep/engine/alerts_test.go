package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
)

// From rules as people write them and lines as they log them to alerts as others read them. Each event is its seconds and
// the rest of its object; each alert is compared in the members that the case names.
func TestFromLinesToAlerts(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		events     []string
		advance    cep.Duration
		want       []string
	}{
		{
			"brute force", `
  from: auth
  by: [src_ip]
  where: service == "sshd"
  within: 10m
  severity: high
  tags: [ssh]
  mitre: [T1110]
  sequence:
  - {step: fail, where: outcome == "failure", times: 2..}
  - {step: ok,   where: outcome == "success"}
  exceptions:
  - {name: known, where: src_ip == "192.0.2.1"}
  alert:
    title: "{{user}} in from {{src_ip}} after {{fails}} failures"
    fields: {user: ok.user, src_ip: ok.src_ip, fails: len(fail)}
    suppress: {by: [src_ip, user], for: 1h}`,
			[]string{
				`0 "service":"sshd","outcome":"failure","src_ip":"192.0.2.1"`, `0 "service":"sshd","outcome":"failure","src_ip":"203.0.113.7"`,
				`1 "service":"sshd","outcome":"failure","src_ip":"203.0.113.7"`, `2 "service":"ftpd","outcome":"success","src_ip":"203.0.113.7"`,
				`2 "service":"sshd","outcome":"success","src_ip":"203.0.113.7","user":"root\n"`,
				`3 "service":"sshd","outcome":"failure","src_ip":"203.0.113.7"`, `4 "service":"sshd","outcome":"failure","src_ip":"203.0.113.7"`,
				`5 "service":"sshd","outcome":"success","src_ip":"203.0.113.7","user":"root\n"`,
			},
			0,
			[]string{`{"time":"1970-01-01T00:00:02Z","severity":"high","title":"root\\n in from 203.0.113.7 after 2 failures","key":{"src_ip":"203.0.113.7"},"fields":{"user":"root\n","src_ip":"203.0.113.7","fails":2},"tags":["ssh"],"mitre":["T1110"]}`},
		},
		{
			"suppressed ones are counted", `
  from: a
  by: [k]
  alert: {suppress: {for: 10s}}`,
			[]string{`0 "k":1`, `1 "k":1`, `1 "k":2`, `9 "k":1`, `10 "k":1`},
			0,
			[]string{`{"time":"1970-01-01T00:00:00Z","key":{"k":1}}`, `{"time":"1970-01-01T00:00:01Z","key":{"k":2}}`, `{"time":"1970-01-01T00:00:10Z","key":{"k":1},"suppressed":2}`},
		},
		{
			"silence", `
  from: a
  by: [sensor]
  sequence: [{absent: beat, for: 5m}]`,
			[]string{`0 "sensor":"s1"`, `100 "sensor":"s2"`, `299 "sensor":"s1"`},
			engine.ToEnd,
			[]string{`{"time":"1970-01-01T00:06:40Z","completed_by":"time","key":{"sensor":"s2"}}`, `{"time":"1970-01-01T00:09:59Z","completed_by":"time","key":{"sensor":"s1"}}`},
		},
		{
			"a timeout has null for what did not come", `
  from: a
  by: [order]
  within: 30m
  on_timeout: emit
  sequence: [{step: placed, where: t == "placed"}, {step: paid, where: t == "paid"}]
  alert: {fields: {amount: placed.amount, paid: paid.amount}}`,
			[]string{`0 "order":1,"t":"placed","amount":2.50`, `10 "order":2,"t":"placed","amount":1`, `20 "order":1,"t":"paid","amount":2.5`},
			engine.ToEnd,
			[]string{
				`{"kind":"match","time":"1970-01-01T00:00:20Z","completed_by":"event","fields":{"amount":2.5,"paid":2.5}}`,
				`{"kind":"timeout","time":"1970-01-01T00:30:10Z","completed_by":"time","fields":{"amount":1,"paid":null}}`,
			},
		},
		{
			"an ordered match says when it was complete", `
  from: a
  by: [k]
  within: 10s
  emit: ordered
  sequence: [{step: x, where: t == "x"}, {step: y, where: t == "y" and n == x.n}]`,
			[]string{`0 "k":1,"t":"x","n":1`, `1 "k":1,"t":"x","n":2`, `3 "k":1,"t":"y","n":2`},
			engine.ToEnd,
			[]string{`{"time":"1970-01-01T00:00:10Z","completed_at":"1970-01-01T00:00:03Z","completed_by":"event","first_at":"1970-01-01T00:00:01Z"}`},
		},
		{
			"events come along", `
  from: a
  by: [k]
  within: 10s
  sequence: [{step: x, where: t == "x", times: 3}, {step: y, where: t == "y"}]
  alert: {include_events: first_last}`,
			[]string{`0 "k":1,"t":"x","n":1`, `1 "k":1,"t":"x","n":2`, `2 "k":1,"t":"x","n":3`, `3 "k":1,"t":"y"`},
			0,
			[]string{`{"events":{"x":[{"time":"1970-01-01T00:00:00Z","stream":"a","partition":"0","offset":0,"event":{"at":0,"k":1,"t":"x","n":1}},{"time":"1970-01-01T00:00:02Z","stream":"a","partition":"0","offset":2,"event":{"at":2,"k":1,"t":"x","n":3}}],"y":[{"time":"1970-01-01T00:00:03Z","stream":"a","partition":"0","offset":3,"event":{"at":3,"k":1,"t":"y"}}]}}`},
		},
		{
			"severity is measured", `
  from: a
  by: [k]
  severity: low
  alert: {severity: 'amount > 100 ? "critical" : "medium"', fields: {amount: event.amount}}`,
			[]string{`0 "k":1,"amount":101`, `1 "k":1,"amount":7`},
			0,
			[]string{`{"severity":"critical","fields":{"amount":101}}`, `{"severity":"medium","fields":{"amount":7}}`},
		},
		{
			"an open alert is updated, reminds and ends", `
  from: a
  by: [sensor]
  where: kind == "hot"
  alert:
    title: "{{$key.sensor}} at {{t}}"
    fields: {t: event.t}
    while_open: update
    repeat: 1m
    resolve: {where: kind == "cold", quiet: 5m}`,
			[]string{
				`0 "sensor":"s1","kind":"hot","t":90`, `30 "sensor":"s1","kind":"hot","t":95`, `70 "sensor":"s1","kind":"cold"`,
				`80 "sensor":"s1","kind":"cold"`, `90 "sensor":"s2","kind":"hot","t":80`,
			},
			engine.ToEnd,
			[]string{
				`{"kind":"match","time":"1970-01-01T00:00:00Z","title":"s1 at 90"}`,
				`{"kind":"update","time":"1970-01-01T00:00:30Z","title":"s1 at 95"}`,
				`{"kind":"reminder","time":"1970-01-01T00:01:00Z","completed_by":"time","title":"s1 at 90","fields":{"t":90}}`,
				`{"kind":"resolved","time":"1970-01-01T00:01:10Z","completed_by":"event","title":"s1 at 90"}`,
				`{"kind":"match","time":"1970-01-01T00:01:30Z","title":"s2 at 80"}`,
				`{"kind":"reminder","time":"1970-01-01T00:02:30Z"}`, `{"kind":"reminder","time":"1970-01-01T00:03:30Z"}`,
				`{"kind":"reminder","time":"1970-01-01T00:04:30Z"}`, `{"kind":"reminder","time":"1970-01-01T00:05:30Z"}`,
				`{"kind":"resolved","time":"1970-01-01T00:06:30Z","completed_by":"time","key":{"sensor":"s2"}}`,
			},
		},
		{
			"three alerts of two rules on one host", `
  from: alerts
  by: {host: key.host}
  where: severity in ["low", "high"]
  within: 10m
  severity: critical
  sequence: [{step: any, times: 3}]
  alert: {fields: {rules: "map(any, .rule)", first: "any[0].user"}, suppress: {by: [host], for: 1h}}
- id: failed
  from: a
  by: [host]
  where: kind == "failed"
  severity: low
  alert: {fields: {user: event.user}}
- id: shadowed
  from: a
  by: [host]
  where: kind == "failed"
  mode: shadow
- id: rooted
  from: a
  by: [host]
  where: kind == "root"
  severity: high
  alert: {suppress: {for: 1h}}`,
			[]string{
				`0 "host":"h","kind":"failed","user":"u"`, `1 "host":"h","kind":"root"`, `1 "host":"i","kind":"root"`, `2 "host":"h","kind":"root"`,
			},
			0,
			[]string{
				`{"rule":"failed"}`, `{"rule":"rooted","key":{"host":"h"}}`, `{"rule":"rooted","key":{"host":"i"}}`,
				`{"rule":"r","time":"1970-01-01T00:00:02Z","severity":"critical","key":{"host":"h"},"fields":{"rules":["failed","rooted","rooted"],"first":"u"}}`,
			},
		},
		{
			"a pattern lists what it does not exclude", `
  from: a
  by: [k]
  pattern: x {- y+ -} z
  steps: {x: {where: t == "x"}, y: {where: t == "y"}, z: {where: t == "z"}}
  within: 10s
  alert: {fields: {n: len(y)}}`,
			[]string{`0 "k":1,"t":"x"`, `1 "k":1,"t":"y"`, `2 "k":1,"t":"y"`, `3 "k":1,"t":"z"`},
			0,
			[]string{`{"time":"1970-01-01T00:00:03Z","fields":{"n":2},"events":{"x":[{"time":"1970-01-01T00:00:00Z","stream":"a","partition":"0","offset":0}],"y":[],"z":[{"time":"1970-01-01T00:00:03Z","stream":"a","partition":"0","offset":3}]}}`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := replayLines(t, "version: 1\nrules:\n- id: r"+c.rule, c.events, c.advance)
			if len(got) != len(c.want) {
				t.Fatalf("%d alerts, want %d:\n%s", len(got), len(c.want), strings.Join(got, "\n"))
			}
			for i := range got {
				var g, w map[string]json.RawMessage
				if err := json.Unmarshal([]byte(got[i]), &g); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal([]byte(c.want[i]), &w); err != nil {
					t.Fatal(err)
				}
				for member, value := range w {
					if diff := cmp.Diff(string(value), string(g[member])); diff != "" {
						t.Errorf("alert %d, %s:\n%s", i, member, diff)
					}
				}
			}
		})
	}
}

// replayLines replays events of the rule's one stream; each begins with its seconds.
func replayLines(t *testing.T, text string, events []string, advance cep.Duration) []string {
	set := load(t, text)
	stream := set.Rules[0].Streams[0]
	if stream == engine.AlertStream {
		stream = set.Rules[1].Streams[0]
	}
	l := &lines{partition: &cep.Partition{Stream: stream, Name: "0"}}
	for _, e := range events {
		at, rest, _ := strings.Cut(e, " ")
		l.text = append(l.text, fmt.Sprintf(`{"at":%s,%s}`, at, rest))
	}
	spec, err := codec.ParseTime("at,unix")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	s, err := engine.Replay(t.Context(), engine.ReplayConfig{
		Rules: set, Streams: []engine.Stream{{Name: stream}}, Readers: []source.Reader{l}, Time: spec, Advance: advance,
		Alert: func(a *cep.Alert) error {
			got = append(got, string(alert.AppendJSON(nil, a)))
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Rules {
		if r.Errors > 0 || r.Disabled != "" {
			t.Errorf("rule %s: %d errors (%s), disabled %q", r.ID, r.Errors, r.LastError, r.Disabled)
		}
	}
	return got
}
