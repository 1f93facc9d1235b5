package rulesapi

import "net/http"

const (
	// ruleBytesMax is the largest text of a rule that is taken: what package patterns takes of a file.
	ruleBytesMax = 1 << 20
	// setBytesMax is the largest set of managed rules that is taken at once: 10,000 rules of 3 KiB.
	setBytesMax = 32 << 20
	// smallBytesMax is the largest body where little is to be said.
	smallBytesMax = 64 << 10
)

// Route is one thing that can be asked.
type Route struct {
	// Method and Path are those of echo, behind the prefix /v1: parts of the path that begin with a colon are parameters.
	Method, Path string
	// Role is the least that may ask.
	Role Role
	// BodyMax is the size of the largest body that is read; 0: none is.
	BodyMax int64
}

// Routes returns all routes.
func Routes() []Route {
	return []Route{
		{http.MethodGet, "/openapi.yaml", Viewer, 0},
		{http.MethodGet, "/docs", Viewer, 0},
		{http.MethodGet, "/rules", Viewer, 0},
		{http.MethodGet, "/rules/:id", Viewer, 0},
		{http.MethodPut, "/rules/:id", Editor, ruleBytesMax},
		{http.MethodPatch, "/rules/:id", Editor, smallBytesMax},
		{http.MethodDelete, "/rules/:id", Editor, 0},
		{http.MethodPost, "/rules/:id/enable", Editor, 0},
		{http.MethodPost, "/rules/:id/disable", Editor, 0},
		{http.MethodPost, "/rules/:id/shadow", Editor, 0},
		{http.MethodPost, "/rules/:id/alert", Editor, 0},
		{http.MethodGet, "/rules/:id/revisions", Viewer, 0},
		{http.MethodGet, "/rules/:id/revisions/:number", Viewer, 0},
		{http.MethodGet, "/rules/:id/diff", Viewer, 0},
		{http.MethodGet, "/rules/:id/starts", Viewer, 0},
		{http.MethodPost, "/validate", Viewer, ruleBytesMax},
		{http.MethodGet, "/managed", Viewer, 0},
		{http.MethodPut, "/managed", Editor, setBytesMax},
		{http.MethodGet, "/streams", Viewer, 0},
		{http.MethodGet, "/streams/:name", Viewer, 0},
		{http.MethodGet, "/sinks", Viewer, 0},
		{http.MethodGet, "/sinks/:name", Viewer, 0},
		{http.MethodGet, "/checkpoints", Viewer, 0},
		{http.MethodPost, "/checkpoints", Admin, 0},
		{http.MethodPost, "/savepoints", Admin, 0},
		{http.MethodGet, "/alerts", Viewer, 0},
		{http.MethodGet, "/alerts/live", Viewer, 0},
		{http.MethodGet, "/alerts/:id", Viewer, 0},
		{http.MethodGet, "/silences", Viewer, 0},
		{http.MethodGet, "/silences/:id", Viewer, 0},
		{http.MethodPut, "/silences/:id", Editor, smallBytesMax},
		{http.MethodDelete, "/silences/:id", Editor, 0},
	}
}
