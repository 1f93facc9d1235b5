package replay

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/rules"
)

// folder is where the recordings are.
func folder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CEPD_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no recorded streams: set CEPD_DATA, or put them at %s", dir)
	}
	return dir
}

// recording is files of one stream, and how a user would read them.
type recording struct {
	name  string
	paths []string
	// time is where events keep their time.
	time     []string
	lateness time.Duration
	// text is read in place of the paths where it is there.
	text []byte
}

const (
	// Sysmon writes UTC with milliseconds; all other channels of these hosts local time in whole seconds, without a zone.
	sysmonTime  = "UtcTime,2006-01-02 15:04:05.000,UTC"
	windowsTime = "EventTime,2006-01-02 15:04:05,America/New_York"
	// One of the recordings was made by another tool, with local milliseconds.
	createdTime = "TimeCreated,2006-01-02 15:04:05.000,America/New_York"
)

// hosts is a recording of Windows hosts. Their events come up to 20 s late, by the summary of a first run.
func hosts(name string) recording {
	return recording{
		name: name, paths: []string{filepath.Join("otrf", name+".zip")},
		time: []string{sysmonTime, windowsTime, createdTime}, lateness: 30 * time.Second,
	}
}

func zeek(name string) recording {
	return recording{
		name: "zeek " + name, paths: []string{filepath.Join("zeek-wrccdc", name+".json.gz")},
		// Zeek writes an event when it ends, and gives the time when it began.
		time: []string{"ts"}, lateness: 10 * time.Minute,
	}
}

func series(path string) recording {
	return recording{
		name: path, paths: []string{filepath.Join("nab", path)},
		time: []string{"timestamp,2006-01-02 15:04:05,UTC"}, lateness: 5 * time.Second,
	}
}

var (
	psremoting = hosts("covenant_psremoting_grunt")
	dllHijack  = hosts("covenant_wmi_wbemcomn_dll_hijack")
	regsvr32   = hosts("empire_launcher_sct_regsvr32")
	psexec     = hosts("empire_psexec_dcerpc_tcp_svcctl")
	addUser    = hosts("empire_wmic_add_user_backdoor")
	wmicScript = hosts("wmic_remote_xsl_jscript")

	cloudtrail = recording{
		name: "cloudtrail", paths: []string{filepath.Join("aws-stratus", "cloudtrail_as_delivered.jsonl.gz")},
		// CloudTrail delivers files of five minutes, region by region; the summary of a first run says 9m39s.
		time: []string{"eventTime"}, lateness: 10 * time.Minute,
	}
	ssh = recording{
		name: "ssh", paths: []string{filepath.Join("loghub-openssh", "events.jsonl")},
		time: []string{"ts"}, lateness: 5 * time.Second,
	}

	occupancy   = series("realTraffic/occupancy_6005.csv")
	latency     = series("realKnownCause/ec2_request_latency_system_failure.csv")
	temperature = series("realKnownCause/machine_temperature_system_failure.csv")
	taxi        = series("realKnownCause/nyc_taxi.csv")
)

var recordings = []recording{
	psremoting, dllHijack, regsvr32, psexec, addUser, wmicScript, cloudtrail, ssh, occupancy, latency, temperature, taxi,
	zeek("dce_rpc"), zeek("ftp"), zeek("kerberos"), zeek("modbus"), zeek("notice"), zeek("ntlm"), zeek("rdp"),
	zeek("smb_mapping"), zeek("smtp"), zeek("ssh"),
}

// found is what a run gave.
type found struct {
	alerts  []*cep.Alert
	summary engine.Summary
}

// loadRules compiles all rules of rules/, once.
var loadRules = sync.OnceValues(func() (*rules.Set, error) {
	set, diagnostics, err := rules.Load([]string{"rules"})
	if set == nil && err == nil {
		err = diagnostics
	}
	return set, err
})

func load(t *testing.T) *rules.Set {
	t.Helper()
	set, err := loadRules()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// runs keeps what was found: most tests look at the same few runs, and a run of a large recording takes seconds with the
// race detector.
var runs = map[string]found{}

// run replays the recording through all rules.
func (r recording) run(t *testing.T, advance time.Duration) found {
	t.Helper()
	key := fmt.Sprint(r.name, r.time, r.lateness, r.text != nil, advance)
	if f, done := runs[key]; done {
		return f
	}
	set := load(t)
	dir := folder(t)
	var paths []string
	for _, p := range r.paths {
		paths = append(paths, filepath.Join(dir, p))
	}
	if r.text != nil {
		paths = []string{"-"}
	}
	partitions := source.NewPartitions("events")
	readers, err := filesource.Open(filesource.Config{Stream: "events", Paths: paths, Partitions: partitions, Stdin: bytes.NewReader(r.text)})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := codec.ParseTime(r.time...)
	if err != nil {
		t.Fatal(err)
	}
	var f found
	f.summary, err = engine.Replay(context.Background(), engine.ReplayConfig{
		Rules:      set,
		Streams:    []engine.Stream{{Name: "events", Lateness: r.lateness, MaxAhead: time.Hour}},
		Readers:    readers,
		Partitions: partitions,
		Time:       spec,
		Advance:    advance,
		Alert:      func(a *cep.Alert) error { f.alerts = append(f.alerts, a); return nil },
	})
	if err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
	s := f.summary.Streams[0]
	if s.Events == 0 || len(s.Bad) > 0 || s.Future > 0 || s.Returned > 0 {
		t.Errorf("%s: %+v", r.name, s)
	}
	runs[key] = f
	return f
}

// of returns the alerts of a rule.
func (f found) of(rule string) []*cep.Alert {
	var out []*cep.Alert
	for _, a := range f.alerts {
		if a.Rule == rule {
			out = append(out, a)
		}
	}
	return out
}

// field returns a field of an alert as JSON.
func field(a *cep.Alert, name string) string {
	for _, list := range [][]cep.Named{a.Fields, a.Key} {
		for _, f := range list {
			if f.Name == name {
				return string(cep.AppendJSON(nil, f.Value))
			}
		}
	}
	return "no " + name
}

// taken returns the events of a step.
func taken(a *cep.Alert, step string) []cep.AlertEvent {
	for _, s := range a.Steps {
		if s.Name == step {
			return s.Events
		}
	}
	return nil
}

// content is the text of the recording's one file, as offsets count it.
func (r recording) content(t *testing.T) []byte {
	t.Helper()
	name := filepath.Join(folder(t), r.paths[0])
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var in io.Reader = bytes.NewReader(data)
	switch filepath.Ext(name) {
	case ".gz":
		if in, err = gzip.NewReader(in); err != nil {
			t.Fatal(err)
		}
	case ".zip":
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil || len(z.File) != 1 {
			t.Fatalf("%s: %d members, %v", name, len(z.File), err)
		}
		member, err := z.File[0].Open()
		if err != nil {
			t.Fatal(err)
		}
		in = member
	}
	text, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// line is the number of the line that begins at the offset, from 1.
func line(text []byte, offset int64) int { return bytes.Count(text[:offset], []byte{'\n'}) + 1 }

// record is the event at the offset.
func record(t *testing.T, text []byte, offset int64) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.NewDecoder(bytes.NewReader(text[offset:])).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// expected reads the figures of a folder.
func expected(t *testing.T, dir string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder(t), dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// clock writes a time as the figures do.
func clock(t cep.Time) string { return t.Std().Format(time.TimeOnly) }

// describe lists alerts for a failure.
func describe(alerts []*cep.Alert) string {
	var b strings.Builder
	for _, a := range alerts {
		fmt.Fprintf(&b, "\n\t%s %s %v %v", a.Time, a.Rule, a.Key, a.Fields)
		for _, s := range a.Steps {
			for _, e := range s.Events {
				fmt.Fprintf(&b, " %s@%d", s.Name, e.Position.Offset)
			}
		}
	}
	return b.String()
}
