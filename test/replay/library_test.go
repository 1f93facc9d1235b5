package replay

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/library"
)

// shipped are the files of the rule library that are about events of a kind, the streams that they read, and what they find
// in each recording of such events, with the reason. In a recording that is not named they find nothing.
var shipped = []struct {
	files      []string
	streams    []string
	recordings []recording
	hits       []hit
}{
	{
		[]string{"cloudtrail.yaml"},
		[]string{"cloudtrail"},
		[]recording{cloudtrail},
		[]hit{
			{cloudtrail, "aws-secrets-swept", 1, "the attack reads twenty secrets in a row"},
			{cloudtrail, "aws-snapshot-made-and-shared", 1, "snap-083d3b857c13988bc, which the attack shares"},
			{cloudtrail, "aws-new-user-made-admin", 1, "malicious-iam-user, with the policy of administrators in the second of its making"},
		},
	},
	{
		[]string{"windows.yaml", "sysmon.yaml"},
		[]string{"windows", "sysmon"},
		[]recording{psremoting, dllHijack, regsvr32, psexec, addUser, wmicScript},
		[]hit{
			{addUser, "windows-short-lived-account", 1, "the account of the attack, which is deleted in the second of its making"},
		},
	},
	{
		[]string{"zeek.yaml"},
		[]string{"zeek_conn", "zeek_dns"},
		// Of the ten logs none is a log of connections or names: rules for those must not take a service for a scan.
		[]recording{zeek("dce_rpc"), zeek("ftp"), zeek("kerberos"), zeek("ntlm"), zeek("rdp"), zeek("smb_mapping"), zeek("smtp"), zeek("ssh")},
		nil,
	},
}

func TestShippedRules(t *testing.T) {
	for _, s := range shipped {
		t.Run(s.files[0], func(t *testing.T) {
			set, diagnostics, err := rules.LoadFS(library.FS, s.files...)
			if err != nil || set == nil {
				t.Fatal(err, diagnostics)
			}
			want, got := map[string]int{}, map[string]int{}
			for _, h := range s.hits {
				want[h.rec.name+" "+h.rule] = h.alerts
			}
			for _, r := range s.recordings {
				for _, a := range r.through(t, set, s.streams) {
					got[r.name+" "+a.Rule]++
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what shipped rules find in %v (-want +got):\n%s", slices.Sorted(maps.Keys(got)), diff)
			}
		})
	}
}

// through replays the recording as each of the streams that the rules read.
func (r recording) through(t *testing.T, set *rules.Set, streams []string) []*cep.Alert {
	t.Helper()
	dir := folder(t)
	spec, err := codec.ParseTime(r.time...)
	if err != nil {
		t.Fatal(err)
	}
	var alerts []*cep.Alert
	cfg := engine.ReplayConfig{
		Rules: set, Partitions: source.NewPartitions(streams...), Time: spec, Advance: time.Hour,
		Alert: func(a *cep.Alert) error { alerts = append(alerts, a); return nil },
	}
	for _, name := range streams {
		var paths []string
		for _, p := range r.paths {
			paths = append(paths, filepath.Join(dir, p))
		}
		readers, err := filesource.Open(filesource.Config{Stream: name, Paths: paths, Partitions: cfg.Partitions})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Streams = append(cfg.Streams, engine.Stream{Name: name, Lateness: r.lateness, MaxAhead: time.Hour})
		cfg.Readers = append(cfg.Readers, readers...)
	}
	summary, err := engine.Replay(context.Background(), cfg)
	if err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
	for i := range summary.Streams {
		if s := &summary.Streams[i]; s.Events == 0 || len(s.Bad) > 0 || s.Future > 0 {
			t.Errorf("%s: %s", r.name, fmt.Sprint(*s))
		}
	}
	return alerts
}
