package rulesapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// Problem is an answer that says why not, as RFC 9457 has it.
type Problem struct {
	// Type names the kind of problem: a place in the page of the API that explains it.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Diagnostics are the mistakes in rules, as `cepd check --json` has them.
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
	// File is the file that belongs to people, where that is why.
	File string `json:"file,omitempty"`
	// ETag is that of what is there, where another one was expected.
	ETag string `json:"etag,omitempty"`
}

// Error says it in one line.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Title + ": " + p.Detail
}

// kind is a kind of problem.
type kind struct {
	name   string
	status int
	title  string
	// text explains it in the page of the API.
	text string
}

// The kinds. Their names are part of the interface.
var (
	kindBadRequest = kind{"bad-request", http.StatusBadRequest, "the request cannot be read", "A parameter, a header or the body is not what the description says. The detail names it."}
	kindNobody     = kind{"unauthenticated", http.StatusUnauthorized, "who asks?", "No credentials came, or none that are known. Send `Authorization: Bearer TOKEN`."}
	kindForbidden  = kind{"forbidden", http.StatusForbidden, "not with this role", "The route needs a higher role than that of the token."}
	kindNotFound   = kind{"not-found", http.StatusNotFound, "not found", "There is nothing of that name."}
	kindMethod     = kind{"method", http.StatusMethodNotAllowed, "not with this method", "`Allow` lists the methods that the path takes."}
	kindNotManaged = kind{"not-managed", http.StatusConflict, "the file belongs to people", "The rule, or the file that would have to be written, stands in a file that people write. Edit that file: the service sees it. `file` names it."}
	kindConflict   = kind{"conflict", http.StatusConflict, "not in this state", "The request is sound, but something else is in its way: another file with mistakes, the last rule."}
	kindStale      = kind{"stale", http.StatusPreconditionFailed, "it has changed since", "`If-Match` names another version than the one that is there, or `If-None-Match: *` was sent and it is there already. Get it again, and decide anew. `etag` is that of what is there."}
	kindTooLarge   = kind{"too-large", http.StatusRequestEntityTooLarge, "the body is too large", "The description of the route says how large it may be."}
	kindMediaType  = kind{"media-type", http.StatusUnsupportedMediaType, "another kind of body is expected", "Set `Content-Type` to one of those that the description of the route lists."}
	kindInvalid    = kind{"invalid", http.StatusUnprocessableEntity, "mistakes in the rules", "The rules have mistakes: `diagnostics` lists all of them, with the codes that `cepd check` gives. The set in force runs on."}
	kindNoMatch    = kind{"precondition-required", http.StatusPreconditionRequired, "say which version you mean", "It exists. Send its ETag in `If-Match`, so that nobody's change is lost, or `If-Match: *` to overwrite whatever is there."}
	kindFull       = kind{"full", http.StatusServiceUnavailable, "too many at once", "As many requests of this kind are being answered as may be. Try again later."}
	kindNotNow     = kind{"unavailable", http.StatusServiceUnavailable, "not now", "The job starts or stops. Try again."}
	kindInternal   = kind{"internal", http.StatusInternalServerError, "that went wrong", "The service could not do it: a disk, an epoch. The detail says what; the log says more. What was in force is."}
)

// kinds are all of them, for the page and for tests.
var kinds = []kind{
	kindBadRequest, kindNobody, kindForbidden, kindNotFound, kindMethod, kindNotManaged, kindConflict, kindStale, kindTooLarge, kindMediaType,
	kindInvalid, kindNoMatch, kindInternal, kindFull, kindNotNow,
}

// problem makes an answer of a kind.
func (k kind) problem(format string, args ...any) *Problem {
	return &Problem{Type: "/v1/docs#" + k.name, Title: k.title, Status: k.status, Detail: fmt.Sprintf(format, args...)}
}

// Diagnostic is a mistake or a warning in a rule, as `cepd check --json` has it.
type Diagnostic struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	// Length is that of what is marked in the line; EndLine and EndColumn are where it ends, behind the last character.
	Length    int    `json:"length"`
	EndLine   int    `json:"end_line"`
	EndColumn int    `json:"end_column"`
	Severity  string `json:"severity"`
	Code      string `json:"code"`
	Message   string `json:"message"`
	Hint      string `json:"hint,omitempty"`
	Rule      string `json:"rule,omitempty"`
	Excerpt   string `json:"excerpt,omitempty"`
}

// DiagnosticsOf is the list that answers carry, and that `cepd check --json` prints; it is never nil.
func DiagnosticsOf(list patterns.Diagnostics) []Diagnostic {
	out := make([]Diagnostic, len(list))
	for i, d := range list {
		endLine, endColumn := d.End()
		out[i] = Diagnostic{
			File: d.File, Line: d.Line, Column: d.Column, Length: d.Length, EndLine: endLine, EndColumn: endColumn,
			Severity: d.Severity(), Code: d.Code, Message: d.Message, Hint: d.Hint, Rule: d.Rule, Excerpt: d.Excerpt,
		}
	}
	return out
}

// invalid is the answer to rules with mistakes. Where none of them is in the file that was sent, something else is in the way.
func invalid(list patterns.Diagnostics, file string) *Problem {
	errs := list.Errors()
	k, detail := kindConflict, "the rules that are on the disk have mistakes, none of them in what was sent: mend those first"
	for _, d := range errs {
		if d.File == file || file == "" {
			k, detail = kindInvalid, fmt.Sprintf("%d mistakes; the first is %s", len(errs), errs[0].Error())
			break
		}
	}
	p := k.problem("%s", detail)
	p.Diagnostics = DiagnosticsOf(list)
	return p
}

// problemOf makes the answer to an error.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return kindTooLarge.problem("%v", err)
	}
	if d, ok := errors.AsType[patterns.Diagnostics](err); ok {
		return invalid(d, "")
	}
	if empty, ok := errors.AsType[*rules.EmptyError](err); ok {
		return kindConflict.problem("no rule would be left in %s: a job needs one", empty.Dir)
	}
	if he, ok := errors.AsType[*echo.HTTPError](err); ok {
		switch {
		case he.Code == http.StatusNotFound && he.Internal != nil:
			return kindNotFound.problem("%v", he.Internal)
		case he.Code == http.StatusNotFound:
			return kindNotFound.problem("there is no such route; /v1/docs lists those of the API")
		case he.Code == http.StatusMethodNotAllowed && he.Internal != nil:
			return kindMethod.problem("%v", he.Internal)
		case he.Code == http.StatusMethodNotAllowed:
			return kindMethod.problem("")
		}
		return &Problem{Type: "about:blank", Title: fmt.Sprint(he.Message), Status: he.Code}
	}
	for _, c := range []struct {
		err error
		k   kind
	}{
		{ErrNoSuchRule, kindNotFound},
		{ErrNoSuchEpoch, kindNotFound},
		{ErrCursor, kindBadRequest},
		{ErrKey, kindBadRequest},
		{ErrNotDurable, kindNotNow},
		{ErrUnavailable, kindNotNow},
		{context.Canceled, kindNotNow},
		{context.DeadlineExceeded, kindNotNow},
	} {
		if errors.Is(err, c.err) {
			return c.k.problem("%v", err)
		}
	}
	return kindInternal.problem("%v", err)
}

// HandleError answers with an error, unless an answer has begun: it is the error handler of a whole server, so that everything
// refuses in one form. What echo's own errors have inside is the detail of the answer.
func HandleError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	p := problemOf(err)
	if p.Status == http.StatusMethodNotAllowed && p.Detail == "" {
		p.Detail = instead(c.Request().Method, c.Response().Header().Get("Allow"))
	}
	_ = p.write(c) // the client is gone where this fails
}

// instead says which methods a path takes, of those that do something.
func instead(method, allow string) string {
	list := slices.DeleteFunc(strings.Split(allow, ", "), func(m string) bool { return m == http.MethodOptions })
	return fmt.Sprintf("%.20s is not taken here: send %s", method, strings.Join(list, " or "))
}

// write answers with the problem.
func (p *Problem) write(c echo.Context) error {
	b, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write a problem: %w", err)
	}
	h := c.Response().Header()
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", cmp.Or(h.Get("WWW-Authenticate"), `Bearer realm="cepd"`))
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	}
	if p.ETag != "" {
		h.Set("ETag", p.ETag)
	}
	return c.Blob(p.Status, "application/problem+json", append(b, '\n'))
}
