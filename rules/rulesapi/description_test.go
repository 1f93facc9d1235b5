package rulesapi_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/cepd/cepd/rules/rulesapi"
)

// described is the description, and the routes in it.
var described = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(rulesapi.Description())
	if err != nil {
		return nil, err
	}
	no := false
	for _, s := range doc.Components.Schemas {
		if len(s.Value.Properties) > 0 && s.Value.AdditionalProperties.Schema == nil {
			s.Value.AdditionalProperties.Has = &no
		}
	}
	return doc, doc.Validate(context.Background())
})

// describe returns the description. It admits no member in an answer that it does not describe.
func describe(tb testing.TB) *openapi3.T {
	tb.Helper()
	doc, err := described()
	if err != nil {
		tb.Fatal(err)
	}
	return doc
}

// router finds the operation of a request.
var router = sync.OnceValues(func() (routers.Router, error) {
	doc, err := described()
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc)
})

// pushOperation is the one that this package describes and does not answer.
const pushOperation = "pushEvents"

// colon writes a path as echo has it.
func colon(p string) string {
	return "/v1" + strings.NewReplacer("{", ":", "}", "").Replace(p)
}

// TestEveryRouteIsDescribed holds routes and description against each other, both ways, with roles and parameters. Events are
// posted to a route of another package, which cmd/cepd holds against the description.
func TestEveryRouteIsDescribed(t *testing.T) {
	operations := map[string]*openapi3.Operation{}
	parameters := map[string]openapi3.Parameters{}
	doc := describe(t)
	for p, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.OperationID == pushOperation {
				continue
			}
			operations[method+" "+colon(p)] = op
			parameters[method+" "+colon(p)] = append(item.Parameters, op.Parameters...)
		}
	}
	for _, r := range rulesapi.Routes() {
		name := r.Method + " " + r.Path
		op := operations[name]
		if op == nil {
			t.Errorf("%s has no description", name)
			continue
		}
		delete(operations, name)
		if got := op.Extensions["x-role"]; got != r.Role.String() {
			t.Errorf("%s: the role is described as %v, and is %s", name, got, r.Role)
		}
		query := map[string]bool{}
		for _, p := range parameters[name] {
			switch p.Value.In {
			case "query":
				query[p.Value.Name] = true
			case "path":
				if !strings.Contains(r.Path, ":"+p.Value.Name) {
					t.Errorf("%s: there is no %s in the path", name, p.Value.Name)
				}
			}
		}
		for _, q := range r.Query {
			if !query[q] {
				t.Errorf("%s: the parameter %s has no description", name, q)
			}
			delete(query, q)
		}
		for q := range query {
			t.Errorf("%s: the parameter %s is described, and is not there", name, q)
		}
		var media []string
		if op.RequestBody != nil {
			for m := range op.RequestBody.Value.Content {
				media = append(media, m)
			}
		}
		if len(media) != len(r.Body) || (len(media) > 0) != (r.BodyMax > 0) {
			t.Errorf("%s: bodies %v are described, and %v are taken", name, media, r.Body)
		}
		for _, m := range r.Body {
			if op.RequestBody != nil && op.RequestBody.Value.Content.Get(m) == nil {
				t.Errorf("%s: the body %s has no description", name, m)
			}
		}
	}
	for name := range operations {
		t.Errorf("%s is described, and there is no such route", name)
	}
}
