package rulesapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

const (
	// ruleBytesMax is the largest text of a rule that is taken: what package patterns takes of a file.
	ruleBytesMax = 1 << 20
	// setBytesMax is the largest set of managed rules that is taken at once: 10,000 rules of 3 KiB.
	setBytesMax = 32 << 20
	// smallBytesMax is the largest body where little is to be said.
	smallBytesMax = 64 << 10
	// queryMax is the longest query: a cursor, an id and a time need some hundred bytes, the parts of a key some thousand.
	queryMax = 8 << 10
)

// Route is one thing that can be asked.
type Route struct {
	// Method and Path are those of echo: parts of the path that begin with a colon are parameters.
	Method, Path string
	// Role is the least that may ask.
	Role Role
	// Query are the parameters that the query may have.
	Query []string
	// Body are the media types that it takes, and BodyMax the size of the largest body; none: no body is read.
	Body    []string
	BodyMax int64
	answer  func(*API, *request) error
}

// Prefix is what the paths of all routes begin with.
const Prefix = "/v1"

// What bodies are made of.
const (
	typeYAML  = "application/yaml"
	typeJSON  = "application/json"
	typePatch = "application/merge-patch+json"
)

var (
	pageQuery = []string{"limit", "after"}
	dryQuery  = []string{"dry_run"}
	ruleBody  = []string{typeYAML, typeJSON}
	jsonBody  = []string{typeJSON}
)

// Routes returns all routes.
func Routes() []Route {
	get, put, post := http.MethodGet, http.MethodPut, http.MethodPost
	routes := []Route{
		{get, "/openapi.yaml", Viewer, nil, nil, 0, (*API).getDescription},
		{get, "/docs", Viewer, nil, nil, 0, (*API).getPage},

		{get, "/rules", Viewer, append([]string{"q", "enabled", "mode", "managed", "never_matched"}, pageQuery...), nil, 0, (*API).listRules},
		{get, "/rules/:id", Viewer, nil, nil, 0, (*API).getRule},
		{put, "/rules/:id", Editor, dryQuery, ruleBody, ruleBytesMax, (*API).putRule},
		{http.MethodPatch, "/rules/:id", Editor, dryQuery, []string{typePatch, typeJSON}, smallBytesMax, (*API).patchRule},
		{http.MethodDelete, "/rules/:id", Editor, dryQuery, nil, 0, (*API).deleteRule},
		{post, "/rules/:id/enable", Editor, dryQuery, nil, 0, (*API).switchRule},
		{post, "/rules/:id/disable", Editor, dryQuery, nil, 0, (*API).switchRule},
		{post, "/rules/:id/shadow", Editor, dryQuery, nil, 0, (*API).switchRule},
		{post, "/rules/:id/alert", Editor, dryQuery, nil, 0, (*API).switchRule},
		{get, "/rules/:id/revisions", Viewer, pageQuery, nil, 0, (*API).listRevisions},
		{get, "/rules/:id/revisions/:number", Viewer, nil, nil, 0, (*API).getRevision},
		{get, "/rules/:id/diff", Viewer, []string{"from", "to"}, nil, 0, (*API).getDiff},
		{get, "/rules/:id/starts", Viewer, append([]string{"key"}, pageQuery...), nil, 0, (*API).listStarts},
		{post, "/validate", Viewer, []string{"file", "tests"}, ruleBody, ruleBytesMax, (*API).validate},
		{get, "/managed", Viewer, nil, nil, 0, (*API).getManaged},
		{put, "/managed", Editor, dryQuery, jsonBody, setBytesMax, (*API).putManaged},

		{get, "/streams", Viewer, nil, nil, 0, (*API).listStreams},
		{get, "/streams/:name", Viewer, nil, nil, 0, (*API).getStream},
		{get, "/sinks", Viewer, nil, nil, 0, (*API).listSinks},
		{get, "/sinks/:name", Viewer, nil, nil, 0, (*API).getSink},
		{get, "/checkpoints", Viewer, pageQuery, nil, 0, (*API).listCheckpoints},
		{post, "/checkpoints", Admin, nil, nil, 0, (*API).makeCheckpoint},
		{post, "/savepoints", Admin, []string{"epoch"}, nil, 0, (*API).makeSavepoint},

		{get, "/alerts", Viewer, append([]string{"rule", "since"}, pageQuery...), nil, 0, (*API).listAlerts},
		{get, "/alerts/live", Viewer, []string{"rule", "after"}, nil, 0, (*API).liveAlerts},
		{get, "/alerts/:id", Viewer, nil, nil, 0, (*API).getAlert},

		{get, "/silences", Viewer, pageQuery, nil, 0, (*API).listSilences},
		{get, "/silences/:id", Viewer, nil, nil, 0, (*API).getSilence},
		{put, "/silences/:id", Editor, []string{"dry_run", "force"}, jsonBody, smallBytesMax, (*API).putSilence},
		{http.MethodDelete, "/silences/:id", Editor, dryQuery, nil, 0, (*API).deleteSilence},
	}
	for i := range routes {
		routes[i].Path = Prefix + routes[i].Path
	}
	return routes
}

// Register adds the routes to a group, whose prefix is [Prefix]. Whatever authenticates runs before it.
func (a *API) Register(g *echo.Group) {
	for _, r := range Routes() {
		g.Add(r.Method, strings.TrimPrefix(r.Path, Prefix), func(c echo.Context) error { return a.serve(&r, c) })
	}
}

// request is a request that is being answered.
type request struct {
	echo.Context
	route *Route
	by    Caller
	query map[string][]string
}

// serve answers a request, once it is known that it may be asked and can be read.
func (a *API) serve(route *Route, c echo.Context) error {
	h := c.Response().Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	r := &request{Context: c, route: route}
	err := r.admit()
	if err == nil {
		err = route.answer(a, r)
	}
	if err == nil || c.Response().Committed {
		return err
	}
	return problemOf(err).write(c)
}

// admit says why a request is not answered at all.
func (r *request) admit() error {
	var ok bool
	if r.by, ok = CallerOf(r.Request().Context()); !ok {
		return kindNobody.problem("")
	}
	if r.by.Role < r.route.Role {
		return kindForbidden.problem("%s %s needs the role %s, and this is %s", r.route.Method, r.route.Path, r.route.Role, r.by.Role)
	}
	raw := r.Request().URL.RawQuery
	if len(raw) > queryMax {
		return kindBadRequest.problem("the query is longer than %d bytes", queryMax)
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return kindBadRequest.problem("the query: %v", err)
	}
	for name, list := range values {
		if !slices.Contains(r.route.Query, name) {
			return kindBadRequest.problem("there is no parameter %q here%s", name, among(r.route.Query))
		}
		if len(list) > 1 && name != "key" {
			return kindBadRequest.problem("the parameter %s stands there %d times", name, len(list))
		}
	}
	r.query = values
	return nil
}

// among says which names there are.
func among(names []string) string {
	if len(names) == 0 {
		return ": none is taken"
	}
	return ": write " + strings.Join(names, ", ")
}

// param returns a parameter of the query, "" where it is absent.
func (r *request) param(name string) string {
	if list := r.query[name]; len(list) > 0 {
		return list[0]
	}
	return ""
}

// flag returns a parameter that is true or false; set says that it is there.
func (r *request) flag(name string) (on, set bool, err error) {
	switch v := r.param(name); {
	case len(r.query[name]) == 0:
		return false, false, nil
	case v == "true":
		return true, true, nil
	case v == "false":
		return false, true, nil
	default:
		return false, false, kindBadRequest.problem("%s is true or false", name)
	}
}

// body reads the body and says what it is.
func (r *request) body() (data []byte, mediaType string, err error) {
	header := r.Request().Header.Get("Content-Type")
	mediaType, _, err = mime.ParseMediaType(header)
	if err != nil || !slices.Contains(r.route.Body, mediaType) {
		return nil, "", kindMediaType.problem("Content-Type is %q: write %s", header, strings.Join(r.route.Body, " or "))
	}
	data, err = io.ReadAll(http.MaxBytesReader(r.Response(), r.Request().Body, r.route.BodyMax))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, "", kindTooLarge.problem("more than %d bytes", r.route.BodyMax)
	}
	if err != nil {
		return nil, "", kindBadRequest.problem("read the body: %v", err)
	}
	if len(data) == 0 {
		return nil, "", kindBadRequest.problem("there is no body")
	}
	return data, mediaType, nil
}

// respond answers with JSON.
func (r *request) respond(status int, v any) error {
	if err := r.JSON(status, v); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// decode reads a body of JSON into what v points to, and takes nothing that the description does not have: no member without
// a place, no null, nothing behind it.
func decode(data []byte, v any) error {
	wrong := func(err error) error {
		return kindBadRequest.problem("the body is not what the description says: %v", err)
	}
	tokens := json.NewDecoder(bytes.NewReader(data))
	for {
		t, err := tokens.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return wrong(err)
		}
		if t == nil {
			return wrong(errors.New("there is a null in it: leave out what has no value"))
		}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return wrong(err)
	}
	if d.More() {
		return wrong(errors.New("something stands behind it"))
	}
	return nil
}
