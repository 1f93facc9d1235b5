package main

import (
	"github.com/prometheus/client_golang/prometheus"
)

// family is a metric with all its labels. Counters begin at 0 with the process, whatever an epoch says has been counted before:
// what is asked of them is how fast they grow, and a crash takes some counts back.
type family struct {
	name, help string
	kind       familyKind
	labels     []string
	desc       *prometheus.Desc
}

// familyKind says what can be asked of a metric.
type familyKind string

const (
	counterKind   familyKind = "counter"
	gaugeKind     familyKind = "gauge"
	histogramKind familyKind = "histogram"
)

// families are all metrics of cepd. docs/metrics.md is made of them.
type families struct {
	all []*family

	build, ready, degraded *family
	rules, silences        *family

	events, late, returned, future, invalid                                 *family
	behind, streamWatermark, buffered, bufferedBytes                        *family
	paused, partitions, partitionsIdle, partitionsAbsent                    *family
	partitionWatermark, partitionRecords, partitionBytes                    *family
	logAccepted, logDuplicates, logDiffering, logRefused, logSize, logLimit *family

	visible, keyed, steps, starts, ended, open, draining, keys   *family
	matches, timeouts, alerts, openAlerts, errors, evaluation    *family
	refusedStarts, tooLong, braked, ruleWatermark, lastMatch     *family
	epoch, lastEpoch, epochFailing, stateSize, stateFree         *family
	sinkMessages, sinkBytes, sinkBatches, sinkRetries, sinkMoves *family
	sinkRejected, sinkLost, sinkFailing, sinkStopped             *family
	outbox, outboxBytes, outboxLimit, outboxBytesLimit           *family
	unacknowledged, alertsSent, letters, unsent, excess          *family
	reloadOK, reloadTime, reloads, refused, live, liveSent       *family
	changes, revisionErrors                                      *family

	// These are kept by the client library, not made anew for each scrape.
	barrierTook, epochTook, epochSize, publishTook, swapPause *family
}

func (f *families) add(kind familyKind, name, help string, labels ...string) *family {
	x := &family{name: "cepd_" + name, help: help, kind: kind, labels: labels}
	x.desc = prometheus.NewDesc(x.name, help, labels, nil)
	f.all = append(f.all, x)
	return x
}

func (f *families) counter(name, help string, labels ...string) *family {
	return f.add(counterKind, name, help, labels...)
}

func (f *families) gauge(name, help string, labels ...string) *family {
	return f.add(gaugeKind, name, help, labels...)
}

func (f *families) histogram(name, help string, labels ...string) *family {
	return f.add(histogramKind, name, help, labels...)
}

func newFamilies() *families {
	f := &families{}
	f.build = f.gauge("build_info", "Which program this is; always 1.", "version", "commit", "go_version")
	f.ready = f.gauge("ready", "1 while /ready answers 200.")
	f.degraded = f.gauge("degraded", "Number of things that are not as they should be, by what they are.", "what")
	f.reloadOK = f.gauge("config_last_reload_successful", "1 if the last change of the rules succeeded; the start counts as one.")
	f.reloadTime = f.gauge("config_last_reload_success_timestamp_seconds", "When a change of the rules succeeded last.")
	f.reloads = f.counter("config_reloads_total", "Changes of the rules that were tried.", "result")

	f.events = f.counter("stream_events_total", "Events read.", "stream")
	f.late = f.counter("stream_events_late_total", "Events behind their own partition, which were left out.", "stream")
	f.returned = f.counter("stream_events_returned_late_total", "Events below what the stream had released, of a partition that came back from idleness; they were left out.", "stream")
	f.future = f.counter("stream_events_future_total", "Events too far ahead to be true, which were left out.", "stream")
	f.invalid = f.counter("stream_records_invalid_total", "Records that are no events, by what is wrong with them.", "stream", "kind")
	f.behind = f.gauge("stream_lateness_max_seconds", "The furthest that an event came behind the newest of its partition: the lateness that would have been enough.", "stream")
	f.streamWatermark = f.gauge("stream_watermark_lag_seconds", "How far what the stream has released lies behind the present time.", "stream")
	f.buffered = f.gauge("stream_buffered_events", "Events that wait for time to come.", "stream")
	f.bufferedBytes = f.gauge("stream_buffered_bytes", "What these events take.", "stream")
	f.paused = f.gauge("stream_paused", "1 while too much is buffered, and only what time waits for is read.", "stream")
	f.partitions = f.gauge("stream_partitions", "Partitions that have not ended.", "stream")
	f.partitionsIdle = f.gauge("stream_partitions_idle", "Those for which the stream does not wait.", "stream")
	f.partitionsAbsent = f.gauge("stream_partitions_absent", "Those that are known and that the source has not found.", "stream")
	f.partitionWatermark = f.gauge("partition_watermark_lag_seconds", "How far the watermark of a partition lies behind the present time.", "stream", "partition")
	f.partitionRecords = f.gauge("partition_source_lag_records", "Records of the source that have not been read, where the source knows.", "stream", "partition")
	f.partitionBytes = f.gauge("partition_source_lag_bytes", "Bytes of the source that have not been read, where the source knows.", "stream", "partition")
	f.logAccepted = f.counter("log_events_accepted_total", "Posted events that were taken.", "stream")
	f.logDuplicates = f.counter("log_events_duplicate_total", "Posted events whose id had come before.", "stream")
	f.logDiffering = f.counter("log_events_differing_total", "Posted events whose id had come before with other content.", "stream")
	f.logRefused = f.counter("log_events_refused_total", "Posted events that were not taken: the log was full, the disk failed, the key of the request was reused for another body; or what was wrong with the event.", "stream", "reason")
	f.logSize = f.gauge("log_size_bytes", "Size of the log of posted events.", "stream")
	f.logLimit = f.gauge("log_size_limit_bytes", "What it may become.", "stream")

	f.rules = f.gauge("rules", "Rules by state.", "state")
	f.silences = f.gauge("silences", "Silences by state; over: event time has passed the end.", "state")
	f.visible = f.counter("rule_events_visible_total", "Events that the rule's filter and exceptions let through, of those that it could take.", "rule")
	f.keyed = f.counter("rule_events_keyed_total", "Of these, those that belong to a key.", "rule")
	f.steps = f.counter("rule_step_matches_total", "Candidates that a step took an event for, or that an absence ended.", "rule", "step")
	f.starts = f.counter("rule_starts_total", "Starts: first events of what may become a match.", "rule")
	f.ended = f.counter("rule_starts_ended_total", "Starts that are no longer open, by reason.", "rule", "reason")
	f.open = f.gauge("rule_starts_open", "Starts that are open.", "rule")
	f.draining = f.gauge("rule_starts_draining", "Starts that are open under older versions of the rule.", "rule")
	f.keys = f.gauge("rule_keys", "Keys of which something is remembered.", "rule")
	f.matches = f.counter("rule_matches_total", "Matches that were let out.", "rule")
	f.timeouts = f.counter("rule_timeouts_total", "Timeouts that were let out.", "rule")
	f.alerts = f.counter("rule_alerts_total", "Alerts, and what became of matches that were none: silenced, suppressed, or counted for an open alert.", "rule", "result")
	f.openAlerts = f.gauge("rule_alerts_open", "Alerts that went out and are not resolved.", "rule")
	f.errors = f.counter("rule_evaluation_errors_total", "Conditions, fields and titles that could not be evaluated; a condition is false then.", "rule")
	f.evaluation = f.counter("rule_evaluation_seconds_total", "Time spent on the rule's conditions and state, an estimate from samples.", "rule")
	f.refusedStarts = f.counter("rule_starts_refused_total", "Starts beyond limits.starts_per_key.", "rule")
	f.tooLong = f.counter("rule_candidates_too_long_total", "Candidates that ended at limits.events_per_match.", "rule")
	f.braked = f.counter("rule_events_braked_total", "Events that limits.keys_max or limits.state_bytes kept from beginning anything: alerts may be missing.", "rule")
	f.ruleWatermark = f.gauge("rule_watermark_lag_seconds", "How far the rule's clock, the slowest of its streams, lies behind the present time.", "rule")
	f.lastMatch = f.gauge("rule_last_match_timestamp_seconds", "Event time of the last match.", "rule")

	f.epoch = f.gauge("checkpoint_epoch", "The newest durable epoch.")
	f.lastEpoch = f.gauge("checkpoint_last_success_timestamp_seconds", "When an epoch was made durable last.")
	f.epochFailing = f.gauge("checkpoint_failing", "1 while an epoch cannot be made durable: nothing is read.")
	f.epochTook = f.histogram("checkpoint_duration_seconds", "What the store needed to make an epoch durable.")
	f.epochSize = f.histogram("checkpoint_size_bytes", "Size of an epoch: what had changed, and its alerts.")
	f.barrierTook = f.histogram("checkpoint_barrier_seconds", "What the engine needed to hand an epoch over.")
	f.swapPause = f.histogram("swap_pause_seconds", "How long a change of the rules held the job up.")
	f.stateSize = f.gauge("state_size_bytes", "Size of the file of the state.")
	f.stateFree = f.gauge("state_free_bytes", "What of it is unused and will be used again.")

	f.alertsSent = f.counter("alerts_total", "Alerts that went into an epoch, to however many sinks.")
	f.unsent = f.counter("alerts_unsent_total", "Alerts of rules for which there is no sink.")
	f.excess = f.counter("alerts_excess_total", "Alerts for which a sink had no room; they became dead letters.")
	f.letters = f.counter("dead_letters_total", "Records, events and alerts that became dead letters or went to a side sink.")
	f.sinkMessages = f.counter("sink_messages_total", "Messages that were sent.", "sink")
	f.sinkBytes = f.counter("sink_bytes_total", "Their bytes.", "sink")
	f.sinkBatches = f.counter("sink_batches_total", "Batches in which they were sent.", "sink")
	f.sinkRetries = f.counter("sink_retries_total", "Calls of the destination that were made again.", "sink")
	f.sinkMoves = f.counter("sink_rewinds_total", "Answers of the destination by which it stands elsewhere than was thought.", "sink")
	f.sinkRejected = f.counter("sink_messages_rejected_total", "Messages that the destination will never take; they became dead letters.", "sink")
	f.sinkLost = f.counter("sink_messages_lost_total", "Messages of which nobody knows whether they arrived (at_most_once).", "sink")
	f.publishTook = f.histogram("sink_publish_duration_seconds", "What the destination needed for a batch.", "sink", "result")
	f.sinkFailing = f.gauge("sink_failing", "1 while nothing can be published.", "sink")
	f.sinkStopped = f.gauge("sink_stopped", "1 once the sink has given up: the job ends.", "sink")
	f.outbox = f.gauge("sink_outbox_messages", "Messages that wait for the destination.", "sink")
	f.outboxBytes = f.gauge("sink_outbox_bytes", "Their bytes.", "sink")
	f.outboxLimit = f.gauge("sink_outbox_limit_messages", "How many may wait.", "sink")
	f.outboxBytesLimit = f.gauge("sink_outbox_limit_bytes", "How many bytes may wait.", "sink")
	f.unacknowledged = f.gauge("sink_unacknowledged_messages", "Messages that the destination could still lose in a failure that it is configured to survive.", "sink")

	f.refused = f.counter("http_refused_total", "Requests that were refused, by reason.", "reason")
	f.live = f.gauge("http_live_streams", "Open live streams of alerts.")
	f.liveSent = f.counter("http_live_alerts_total", "Alerts that went out on live streams.")
	f.changes = f.counter("api_changes_total", "Changes over the API.", "result")
	f.revisionErrors = f.counter("api_revision_errors_total", "Revisions of rules that could not be written to the history.")
	return f
}
