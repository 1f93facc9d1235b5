package job

import (
	"slices"

	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/sinks"
)

// bodyMax is the size of an alert above which it goes without its events: half of what a store takes, and above what any
// destination does. An alert that loses its events is better than one that stops the job.
const bodyMax = checkpoint.OutgoingMax / 2

// outlet is a sink at work.
type outlet struct {
	Sink
	outbox    *outbox
	publisher *sinks.Publisher
	// last is the last message of the last epoch that was put together. It belongs to the committer.
	last position
}

// full reports whether what waits is at the sink's limit.
func (o *outlet) full() bool {
	n, size := o.outbox.waits()
	return o.OutboxMax.reached(int(n), size)
}

// post puts together the messages of an epoch.
type post struct {
	outlets     []*outlet
	deadLetters *outlet // nil: there is none
	last        []position
	waiting     []Limit // what waits for each sink, with what the epoch adds
	outgoing    []checkpoint.Outgoing
	body        []byte // scratch
	tally       Tally
}

// Tally counts what became of alerts and refused events since the start.
type Tally struct {
	// Alerts were sent, to however many sinks; Unsent belong to rules for which there is no sink.
	Alerts uint64 `json:"alerts"`
	Unsent uint64 `json:"unsent,omitempty"`
	// Letters are events and alerts that became dead letters or went to a side sink, Excess the alerts for which a sink had
	// no room, Cut those that were too large with their events.
	Letters uint64 `json:"letters,omitempty"`
	Excess  uint64 `json:"excess,omitempty"`
	Cut     uint64 `json:"cut,omitempty"`
}

func (t *Tally) add(u Tally) {
	t.Alerts += u.Alerts
	t.Unsent += u.Unsent
	t.Letters += u.Letters
	t.Excess += u.Excess
	t.Cut += u.Cut
}

func newPost(outlets []*outlet, deadLetters string) *post {
	p := &post{outlets: outlets, last: make([]position, len(outlets)), waiting: make([]Limit, len(outlets))}
	for i, o := range outlets {
		n, size := o.outbox.waits()
		p.last[i], p.waiting[i] = o.last, Limit{int(n), size}
	}
	if i := find(outlets, deadLetters); i >= 0 {
		p.deadLetters = outlets[i]
	}
	return p
}

func find(outlets []*outlet, name string) int {
	return slices.IndexFunc(outlets, func(o *outlet) bool { return o.Name == name })
}

// alert addresses an alert to each sink that takes it.
func (p *post) alert(out *engine.Out) {
	m := sinks.Message{
		ID: out.Alert.ID, Kind: sinks.KindAlert, Rule: out.Alert.Rule, What: out.Alert.Kind.String(),
		Severity: out.Alert.Severity, Key: out.Key, Time: out.Alert.Time,
	}
	p.body = alert.AppendJSON(p.body[:0], out.Alert)
	if len(p.body) > bodyMax {
		short := *out.Alert
		short.Steps = nil
		p.body = alert.AppendJSON(nil, &short)
		p.tally.Cut++
	}
	m.Body = p.body
	sent := false
	for i, o := range p.outlets {
		if !o.takes(out) {
			continue
		}
		sent = true
		if w := p.waiting[i]; o.OnFull == DeadLetter && o.OutboxMax.reached(w.Count, w.Bytes) {
			p.tally.Excess++
			l := newExcess(p.deadLetters.Name, o.Name, &m, "the outbox is full")
			p.letter(&l)
			continue
		}
		p.add(i, m)
	}
	if !sent {
		p.tally.Unsent++
		return
	}
	p.tally.Alerts++
}

// takes reports whether alerts of the rule go to the sink.
func (o *outlet) takes(out *engine.Out) bool {
	if to := out.Rule.Alert.To; len(to) > 0 {
		return slices.Contains(to, o.Name)
	}
	return o.All
}

// letter addresses a letter.
func (p *post) letter(l *letter) {
	if i := find(p.outlets, l.sink); i >= 0 {
		p.tally.Letters++
		p.add(i, l.message)
	}
}

// add gives a message its place in the sequence of a sink. Its body is copied.
func (p *post) add(i int, m sinks.Message) {
	last := &p.last[i]
	last.sequence++
	last.chain = last.chain.Next(m.ID)
	m.Sequence, m.Chain = last.sequence, last.chain
	data := sinks.AppendMessage(make([]byte, 0, len(m.Body)+160+len(m.Rule)+len(m.Key)), &m)
	p.waiting[i].Count++
	p.waiting[i].Bytes += int64(len(data))
	p.outgoing = append(p.outgoing, checkpoint.Outgoing{Sink: p.outlets[i].Name, Sequence: m.Sequence, Data: data})
}
