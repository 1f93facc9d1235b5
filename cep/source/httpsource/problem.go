package httpsource

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// refusalsMax is how many refused events an answer names: who sends thousands of bad ones has one mistake.
const refusalsMax = 20

// Reason says why an event is refused.
type Reason string

// The reasons.
const (
	BadJSON  Reason = "bad_json"  // no JSON, or no object
	BadUTF8  Reason = "bad_utf8"  // bytes that are no UTF-8
	TooDeep  Reason = "too_deep"  // nested deeper than DepthMax
	TooLarge Reason = "too_large" // more bytes than Config.EventMax
	BadID    Reason = "bad_id"    // an id that is no text or number, or a long one
)

// Refusal is an event that was not taken.
type Refusal struct {
	// Index counts the events of the request from 0, Offset is where it begins in the uncompressed body.
	Index  int    `json:"index"`
	Offset int    `json:"offset"`
	Reason Reason `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// Answer is what became of a request that was taken.
type Answer struct {
	Accepted   int `json:"accepted"`
	Duplicates int `json:"duplicates"`
	// Differing counts those of the duplicates that are not what came first with their id.
	Differing int `json:"differing,omitempty"`
	// Refused counts the events that were refused, of which Refusals names the first.
	Refused  int       `json:"refused,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
}

// Problem is what became of a request that was not taken (RFC 9457, application/problem+json).
type Problem struct {
	Type     string    `json:"type"`
	Title    string    `json:"title"`
	Status   int       `json:"status"`
	Detail   string    `json:"detail,omitempty"`
	Refused  int       `json:"refused,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`

	// retryAfter is when to try again, in seconds; 0: not by itself.
	retryAfter int
	// header is what else the answer says.
	header [2]string
}

func problem(status int, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

func (p *Problem) after(seconds int) *Problem {
	p.retryAfter = seconds
	return p
}

func (p *Problem) with(name, value string) *Problem {
	p.header = [2]string{name, value}
	return p
}

func (p *Problem) write(w http.ResponseWriter) {
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.header[0] != "" {
		w.Header().Set(p.header[0], p.header[1])
	}
	writeJSON(w, "application/problem+json", p.Status, p)
}

func writeJSON(w http.ResponseWriter, kind string, status int, body any) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // who does not listen any more is not told
}
