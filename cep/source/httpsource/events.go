package httpsource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cepd/cepd/cep/source/eventlog"
)

const (
	// DepthMax is how deep an event may be nested: as deep as decoders read it.
	DepthMax = 64
	// EventsMax is how many events a request may bring: some 300 bytes of memory for each beside its own, 20 MiB.
	EventsMax = 1 << 16
)

// errMany says that a request brings too many events.
var errMany = fmt.Errorf("more than %d events in one request", EventsMax)

// syntaxError is a body that cannot be cut into events.
type syntaxError struct {
	offset int
	what   string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("byte %d: %s", e.offset, e.what) }

// cut collects the events of a body.
type cut struct {
	body     []byte
	eventMax int
	id       string
	key      string

	index    int
	events   []eventlog.Event
	refused  int
	reasons  map[Reason]int // of all that are refused
	refusals []Refusal      // the first of them
}

// lines cuts a body into lines.
func (c *cut) lines() error {
	for at := 0; at < len(c.body); {
		line := c.body[at:]
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if err := c.add(at, line); err != nil {
				return err
			}
		}
		at += len(line)
	}
	return nil
}

// document takes a body that is one object, or one list of objects.
func (c *cut) document() error {
	at := c.space(0)
	switch {
	case at == len(c.body):
		return &syntaxError{at, "there is nothing"}
	case c.body[at] != '[' && c.isLines(at):
		return &syntaxError{at, "these are objects a line: send them as application/x-ndjson"}
	case c.body[at] != '[':
		return c.add(at, c.body[at:])
	}
	at = c.space(at + 1)
	if at < len(c.body) && c.body[at] == ']' {
		return c.nothing(at + 1)
	}
	for {
		end, err := c.element(at)
		if err != nil {
			return err
		}
		if err := c.add(at, c.body[at:end]); err != nil {
			return err
		}
		switch at = c.space(end); {
		case at == len(c.body):
			return &syntaxError{at, "the list is not closed"}
		case c.body[at] == ']':
			return c.nothing(at + 1)
		}
		at = c.space(at + 1) // behind the comma, at which an element ends
	}
}

// isLines reports whether what should be one object is one a line. That is looked at first, since a mistake in the type is likelier
// than one object with another behind it.
func (c *cut) isLines(at int) bool {
	line, rest, _ := bytes.Cut(c.body[at:], []byte{'\n'})
	return len(bytes.TrimSpace(rest)) > 0 && line[0] == '{' && len(line) <= c.eventMax && json.Valid(line)
}

// nothing checks that nothing follows.
func (c *cut) nothing(at int) error {
	if at = c.space(at); at < len(c.body) {
		return &syntaxError{at, "something follows the list"}
	}
	return nil
}

func (c *cut) space(at int) int {
	for at < len(c.body) {
		switch c.body[at] {
		case ' ', '\t', '\n', '\r':
			at++
		default:
			return at
		}
	}
	return at
}

// element returns where the element of a list that begins here ends: at the comma or bracket behind it. What is inside is
// checked later; here brackets and strings are enough.
func (c *cut) element(at int) (end int, err error) {
	depth := 0
	for i := at; i < len(c.body); i++ {
		switch c.body[i] {
		case '{', '[':
			depth++
		case '}':
			depth--
		case ']':
			if depth == 0 {
				return i, nil
			}
			depth--
		case ',':
			if depth == 0 {
				return i, nil
			}
		case '"':
			if i = stringEnd(c.body, i); i == len(c.body) {
				return 0, &syntaxError{at, "the event that begins here has a text without an end"}
			}
		}
		if depth < 0 {
			return 0, &syntaxError{i, "a bracket that nothing has opened"}
		}
	}
	return 0, &syntaxError{at, "the event that begins here has no end"}
}

// stringEnd returns where the quote is that closes the one here; the length of b if there is none.
func stringEnd(b []byte, at int) int {
	for i := at + 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(b)
}

// add takes an event, or refuses it.
func (c *cut) add(at int, data []byte) error {
	data = bytes.TrimSpace(data)
	index := c.index
	if c.index++; c.index > EventsMax {
		return errMany
	}
	reason, detail := c.check(data)
	e := eventlog.Event{Data: data}
	if reason == "" {
		reason, detail = c.identify(&e, index)
	}
	if reason == "" {
		c.events = append(c.events, e)
		return nil
	}
	if c.reasons == nil {
		c.reasons = map[Reason]int{}
	}
	c.reasons[reason]++
	if c.refused++; len(c.refusals) < refusalsMax {
		c.refusals = append(c.refusals, Refusal{Index: index, Offset: at, Reason: reason, Detail: detail})
	}
	return nil
}

// check says what is wrong with an event; "" if nothing is.
func (c *cut) check(data []byte) (Reason, string) {
	switch {
	case len(data) > c.eventMax:
		return TooLarge, fmt.Sprintf("%d bytes; the limit is %d", len(data), c.eventMax)
	case len(data) == 0 || data[0] != '{':
		return BadJSON, "an event is an object" + likely(data)
	case !utf8.Valid(data):
		return BadUTF8, fmt.Sprintf("byte %d of the event", invalidAt(data)+1) // counted as encoding/json does
	case tooDeep(data):
		return TooDeep, fmt.Sprintf("the limit is %d", DepthMax)
	case json.Valid(data):
		return "", ""
	}
	var v any
	err := json.Unmarshal(data, &v)
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return BadJSON, fmt.Sprintf("byte %d of the event: %v", s.Offset, s)
	}
	return BadJSON, ""
}

// likely says what it may be instead of an object, by its first bytes.
func likely(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		return "; this begins as gzip, which needs Content-Encoding: gzip"
	case bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		return "; this begins as UTF-16, and events are UTF-8"
	case bytes.HasPrefix(data, []byte("[")):
		return "; a list of them is application/json"
	}
	return ""
}

// invalidAt returns where the first byte is that is no UTF-8.
func invalidAt(data []byte) int {
	at := 0
	for at < len(data) {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

func tooDeep(data []byte) bool {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > DepthMax {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			i = stringEnd(data, i)
		}
	}
	return false
}

// identify gives an event its id: its own, else one by the request's key and its place in it. A key stands for one body. Two
// events with one id of their own are one by the word of who made them, who may have written it otherwise the second time.
func (c *cut) identify(e *eventlog.Event, index int) (Reason, string) {
	if c.id != "" {
		raw, err := member(e.Data, c.id)
		if err != nil {
			return BadJSON, err.Error()
		}
		own, err := idText(raw)
		switch {
		case err != nil:
			return BadID, fmt.Sprintf("member %q: %v", c.id, err)
		case own != "":
			e.ID = "event " + own
			return "", ""
		}
	}
	if c.key != "" {
		e.ID, e.Sole = fmt.Sprintf("request %d %s", index, c.key), true
	}
	return "", ""
}

// member returns what an object has under a path, as rules see it: the flat member of that name, else by the objects inside. nil:
// nothing.
func member(data []byte, path string) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	if raw, ok := members[path]; ok {
		return raw, nil
	}
	for {
		first, rest, deeper := strings.Cut(path, ".")
		raw := members[first]
		switch {
		case !deeper:
			return raw, nil
		case len(raw) == 0 || raw[0] != '{':
			return nil, nil
		}
		members = map[string]json.RawMessage{}
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, err
		}
		path = rest
	}
}

// ownIDMax is the length of an event's own id in bytes: what the log takes, less the word before it.
const ownIDMax = eventlog.IDMax - len("event ")

// idText is an id as text; "" where there is none.
func idText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	text := string(raw)
	switch raw[0] {
	case '"':
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", err
		}
	case '{', '[', 't', 'f':
		return "", errors.New("an id is a text or a number")
	}
	if len(text) > ownIDMax {
		return "", fmt.Errorf("an id has %d bytes at most", ownIDMax)
	}
	return text, nil
}
