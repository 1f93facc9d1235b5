package redissink

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/cepd/cepd/sinks"
)

// call asks the script. Script and wait for replicas go in one pipeline, hence over one connection: the server waits for what
// that connection has written.
func (s *Sink) call(ctx context.Context, r request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	stop := context.AfterFunc(ctx, s.client.conns.cut)
	defer stop()
	keys, args := []string{s.position, s.config.target()}, s.arguments(r)
	whole := false
	for attempt := 1; ; attempt++ {
		master, err := s.client.master(ctx)
		if err != nil {
			return answer{}, err
		}
		p := master.Pipeline()
		var cmd *redis.Cmd
		if whole {
			cmd = s.script.Eval(ctx, p, keys, args...)
		} else {
			cmd = s.script.EvalSha(ctx, p, keys, args...)
		}
		var wait *redis.IntCmd
		if s.config.Replicas > 0 && r.op != opLook {
			wait = redis.NewIntCmd(ctx, "wait", s.config.Replicas, s.config.ReplicaTimeout.Milliseconds())
			_ = p.Process(ctx, wait)
		}
		_, _ = p.Exec(ctx) // each command has its own error
		values, err := cmd.Slice()
		if err == nil {
			return s.answered(values, wait)
		}
		if cerr := ctx.Err(); cerr != nil {
			return answer{}, cerr
		}
		c, _ := classify(err)
		if attempt < attemptsMax && c == classNoScript {
			whole = true // the server was started anew, or it is another one
			continue
		}
		if c == classElsewhere || c == classConnection {
			s.client.moved(ctx)
		}
		return answer{}, err
	}
}

// answered reads an answer and what replicas say.
func (s *Sink) answered(values []any, wait *redis.IntCmd) (answer, error) {
	a, err := parseAnswer(values)
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", sinks.ErrStop, err)
	}
	if wait == nil {
		return a, nil
	}
	n, err := wait.Result()
	if err != nil {
		return answer{}, fmt.Errorf("wait for replicas: %w", err)
	}
	// Fewer than asked for is no error: what was appended is published, and the outbox keeps it until it is acknowledged.
	if int(n) >= s.config.Replicas && a.placed && (a.status == statusOK || a.status == statusDup) {
		s.acknowledged = max(s.acknowledged, a.at.Sequence)
	}
	return a, nil
}

// arguments lays a request out as emit.lua reads it.
func (s *Sink) arguments(r request) []any {
	kind, width := "stream", 6
	if s.config.List != "" {
		kind, width = "list", 2
	}
	trim, threshold := "", ""
	switch {
	case s.config.MaxLen > 0:
		trim, threshold = "MAXLEN", strconv.FormatInt(s.config.MaxLen, 10)
	case r.minID != "":
		trim, threshold = "MINID", r.minID
	}
	args := make([]any, 0, 11+width*len(r.messages))
	args = append(args, string(r.op), s.owner, r.fence, r.number, r.base.Sequence, r.base.Chain.String(), kind, trim, threshold, s.config.Channel, width)
	for i := range r.messages {
		m := &r.messages[i]
		body := m.Body
		if s.config.Format != sinks.Raw {
			body = s.config.Format.Append(nil, s.source, m)
		}
		args = append(args, m.Chain.String(), body)
		if kind == "stream" {
			args = append(args, m.ID.String(), m.Rule, kindOf(m), m.Severity)
		}
	}
	return args
}

// kindOf is the kind of the alert, or the word for what else the message is.
func kindOf(m *sinks.Message) string {
	if m.Kind == sinks.KindAlert {
		return m.What
	}
	return m.Kind.String()
}

// class is what an error of the server means for whoever gets it.
type class uint8

const (
	classAgain      class = iota // may pass
	classNoScript                // the script must be sent whole
	classElsewhere               // another node of the cluster holds the key
	classConnection              // the connection broke, or nothing came in time
	classStop                    // no repetition mends it
)

// classes are found by a part of the text, because servers put an error inside a script into the text of another, each version
// in its own way. The advice is for errors that stop the sink.
var classes = []struct {
	text   string
	class  class
	advice string
}{
	{text: "NOSCRIPT", class: classNoScript},
	{text: "MOVED ", class: classElsewhere},
	{text: "ASK ", class: classElsewhere},
	{text: "TRYAGAIN", class: classElsewhere},
	{text: "CLUSTERDOWN", class: classElsewhere},
	{text: "READONLY", class: classAgain},
	{text: "OOM ", class: classAgain},
	{text: "MISCONF", class: classAgain},
	{text: "NOREPLICAS", class: classAgain},
	{text: "BUSY ", class: classAgain},
	{text: "LOADING", class: classAgain},
	{text: "MASTERDOWN", class: classAgain},
	{text: "max number of clients", class: classAgain},
	{"NOAUTH", classStop, adviceLogin},
	{"WRONGPASS", classStop, adviceLogin},
	{"without any password configured", classStop, "the server wants no password; leave it out"},
	{"NOPERM", classStop, adviceRights},
	{"can't run this command", classStop, adviceRights}, // NOPERM in a script, up to 7.0
	{"has no permissions", classStop, adviceRights},     // and later
	{"WRONGTYPE", classStop, "the key holds something else; delete it or choose another name"},
	{"CROSSSLOT", classStop, "the key and its position are in two slots; choose another name for the key"},
	{"DB index is out of range", classStop, "choose a database that the server has"},
	{"cluster support disabled", classStop, "the server is no node of a cluster; leave out `cluster: true`"},
}

const (
	adviceLogin  = "check the username and the password"
	adviceRights = "docs/redis.md lists the rights that the user needs"
)

// classify says what an error means, and for one that stops what to do.
func classify(err error) (c class, advice string) {
	if _, ok := errors.AsType[redis.Error](err); !ok {
		return classConnection, ""
	}
	text := err.Error()
	for _, c := range classes {
		if strings.Contains(text, c.text) {
			return c.class, c.advice
		}
	}
	return classAgain, ""
}
