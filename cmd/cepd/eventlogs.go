package main

import (
	"log/slog"
	"slices"

	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/cep/source/eventlog"
	"github.com/cepd/cepd/cep/source/httpsource"
)

// streamLog is the log of what was posted to a stream, or read from standard input.
type streamLog struct {
	stream string
	log    *eventlog.Log
	// push takes what is posted to all streams.
	push *httpsource.Handler
}

// found logs what was not as it should be when the log was opened.
func (l *streamLog) found(log *slog.Logger) {
	r := l.log.Report()
	if r.Torn > 0 {
		log.Info("the last events of a log were not whole, and nobody was told that they had been taken", "stream", l.stream, "bytes", r.Torn)
	}
	if r.Gaps > 0 {
		log.Error("a log of events is damaged", "stream", l.stream, "gaps", r.Gaps, "records", r.Lost)
	}
	if r.IDsDamage != nil {
		log.Warn("ids of events are forgotten: some that are posted again may be taken again", "stream", l.stream, "err", r.IDsDamage)
	}
}

// logStatus is how a log is, in the status of a job.
type logStatus struct {
	Stream     string `json:"stream"`
	Accepted   uint64 `json:"accepted"`
	Duplicates uint64 `json:"duplicates"`
	// Differing counts those of the duplicates that are not what came first with their id.
	Differing uint64 `json:"differing"`
	// Full, Failed and Reused count events that were not taken: for want of room, because the disk refused, and because the
	// key of the request stands for other ones.
	Full   uint64 `json:"full"`
	Failed uint64 `json:"failed"`
	Reused uint64 `json:"reused"`
	// Refused counts events that were refused for what they are, by the reason.
	Refused map[httpsource.Reason]uint64 `json:"refused,omitempty"`
	// Bytes is the size of the log, Max what it may become.
	Bytes int64  `json:"bytes"`
	Max   int64  `json:"max"`
	Error string `json:"error,omitempty"`
}

func (l *streamLog) status() logStatus {
	s := l.log.Status()
	out := logStatus{
		Stream: l.stream, Accepted: s.Accepted, Duplicates: s.Duplicates, Differing: s.Differing,
		Full: s.Full, Failed: s.Counts.Failed, Reused: s.Reused, Refused: l.push.Refused(l.stream), Bytes: s.Bytes, Max: s.Max,
	}
	if s.Failed != nil {
		out.Error = s.Failed.Error()
	}
	return out
}

// wholeStatus is what /status answers: the job, what stands before it, and how the last change of its rules went.
type wholeStatus struct {
	job.Status
	Logs   []logStatus   `json:"event_logs,omitempty"`
	Reload *reloadStatus `json:"reload,omitempty"`
}

// statusOf describes a job and its logs. What is wrong with a log stands among what is degraded.
func statusOf(j *job.Job, logs []*streamLog) wholeStatus {
	s := wholeStatus{Status: j.Status()}
	for _, l := range logs {
		st := l.status()
		if s.Logs = append(s.Logs, st); st.Error != "" {
			s.Degraded = append(slices.Clip(s.Degraded), job.Degradation{What: "log", Name: l.stream, Reason: st.Error})
		}
	}
	return s
}
