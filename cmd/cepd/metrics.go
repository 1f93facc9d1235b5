package main

import (
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/rulesapi"
)

// scrapesMax is how many scrapes are answered at once: two servers, and somebody who looks.
const scrapesMax = 3

// metrics are what cepd tells Prometheus. They are the status of the job in other words, made at each scrape, and some
// histograms.
type metrics struct {
	*families
	daemon   *daemon
	registry *prometheus.Registry
	handler  http.Handler
	// ask returns how the job is, and its rules; false while it is being restored.
	ask func() (wholeStatus, *rules.Set, bool)
	// stats returns what the API counts; false where there is none.
	stats func() (rulesapi.Stats, bool)

	barrierHistogram, epochHistogram, sizeHistogram, swapHistogram prometheus.Histogram
	publishHistogram                                               *prometheus.HistogramVec

	mu sync.Mutex
	// store says how large the state is; nil where it does not.
	store interface{ Size() (size, free int64) }
	rules ruleTallies
	tally map[string]*tally // of everything that is not a rule, by name and labels
}

// newMetrics returns the metrics of a daemon, in a registry of its own.
func newMetrics(d *daemon) *metrics {
	m := &metrics{families: newFamilies(), daemon: d, registry: prometheus.NewRegistry(), tally: map[string]*tally{}}
	m.ask = func() (wholeStatus, *rules.Set, bool) {
		s, restored := d.recent()
		if !restored {
			return s, nil, false
		}
		return s, d.job().Rules(), true
	}
	m.stats = func() (rulesapi.Stats, bool) {
		if r := d.running.Load(); r != nil && r.api != nil {
			return r.api.Stats(), true
		}
		return rulesapi.Stats{}, false
	}
	m.rules = newRuleTallies(m.families)
	histogram := func(f *family, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: f.name, Help: f.help, Buckets: buckets})
	}
	// From half a millisecond, the fastest fsync, to half a minute; from 4 KiB to 1 GiB.
	seconds, bytes := prometheus.ExponentialBuckets(0.0005, 4, 9), prometheus.ExponentialBuckets(4<<10, 8, 7)
	m.barrierHistogram, m.epochHistogram = histogram(m.barrierTook, seconds), histogram(m.epochTook, seconds)
	m.sizeHistogram, m.swapHistogram = histogram(m.epochSize, bytes), histogram(m.swapPause, seconds)
	m.publishHistogram = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.publishTook.name, Help: m.publishTook.help, Buckets: seconds}, m.publishTook.labels)
	m.registry.MustRegister(
		m, m.barrierHistogram, m.epochHistogram, m.sizeHistogram, m.swapHistogram, m.publishHistogram,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesMax})
	return m
}

// observe is what the job tells of what takes time. The store is the one that the job writes to.
func (m *metrics) observe(store checkpoint.Store) job.Observe {
	m.store, _ = store.(interface{ Size() (size, free int64) })
	return job.Observe{
		Barrier: func(took time.Duration) { m.barrierHistogram.Observe(took.Seconds()) },
		Commit: func(took time.Duration, bytes int64) {
			m.epochHistogram.Observe(took.Seconds())
			m.sizeHistogram.Observe(float64(bytes))
		},
		Publish: func(sink string, took time.Duration, _ int, err error) {
			result := "success"
			if err != nil {
				result = "failure"
			}
			m.publishHistogram.WithLabelValues(sink, result).Observe(took.Seconds())
		},
		Swap: func(pause time.Duration) { m.swapHistogram.Observe(pause.Seconds()) },
	}
}

// begin notes what had been counted when the process began: its counters begin at 0.
func (m *metrics) begin(s job.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rules.count(s.Rules, true)
	emit := func(*family, float64, ...string) {}
	m.putStreams(&emitter{metrics: m, put: emit, base: true}, &wholeStatus{Status: s})
	m.putEpochs(&emitter{metrics: m, put: emit, base: true}, &wholeStatus{Status: s})
}

// showMetrics answers a scrape.
func (d *daemon) showMetrics(c echo.Context) error {
	d.metrics.handler.ServeHTTP(c.Response(), c.Request())
	return nil
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range m.all {
		if f.kind != histogramKind {
			ch <- f.desc
		}
	}
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := &emitter{metrics: m, now: time.Now(), put: func(f *family, v float64, labels ...string) {
		kind := prometheus.GaugeValue
		if f.kind == counterKind {
			kind = prometheus.CounterValue
		}
		for i, l := range labels {
			labels[i] = strings.ToValidUTF8(l, "\ufffd") // names of files can be anything
		}
		ch <- prometheus.MustNewConstMetric(f.desc, kind, v, labels...)
	}}
	m.collect(e)
}

// collect tells everything there is.
func (m *metrics) collect(e *emitter) {
	info, _ := debug.ReadBuildInfo()
	b := buildOf(info)
	e.put(m.build, 1, b.Version, b.Commit, b.Go)
	s, set, restored := m.ask()
	m.putDaemon(e)
	if !restored {
		return
	}
	m.putStreams(e, &s)
	m.putEpochs(e, &s)
	m.putSinks(e, &s)
	m.rules.count(s.Rules, false)
	m.rules.put(e, &s, set)
}

// emitter takes the values of one scrape. With base nothing is told, and counters are set to where they stand.
type emitter struct {
	metrics *metrics
	now     time.Time
	base    bool
	put     func(f *family, value float64, labels ...string)
}

// count tells a counter, which may begin anew: a process that went on from an older epoch counts some things again.
func (e *emitter) count(f *family, n uint64, labels ...string) {
	id := f.name + "\x00" + strings.Join(labels, "\x00")
	t := e.metrics.tally[id]
	if t == nil {
		t = &tally{}
		e.metrics.tally[id] = t
	}
	if e.base {
		t.last = n
		return
	}
	t.to(n)
	e.put(f, float64(t.total), labels...)
}

// lag tells how far a time lies behind the present, unless it is none.
func (e *emitter) lag(f *family, t cep.Time, labels ...string) {
	if t != cep.BeforeAll && t != cep.AfterAll {
		e.put(f, e.now.Sub(t.Std()).Seconds(), labels...)
	}
}

func bit(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// tally is a counter since the process began. What it is told may begin anew at 0.
type tally struct{ last, total uint64 }

// to tells where the count stands, and returns by how much it has grown.
func (t *tally) to(n uint64) uint64 {
	grown := n
	if n >= t.last {
		grown = n - t.last
	}
	t.last = n
	t.total += grown
	return grown
}
