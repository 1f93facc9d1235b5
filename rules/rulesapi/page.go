package rulesapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/cepd/cepd/internal/yamlnode"
)

// description is the API as OpenAPI has it.
//
//go:embed openapi.yaml
var description []byte

// pageText is the readable page, a template.
//
//go:embed page.html
var pageText string

// pageStyle is its style: the only one that its policy admits.
//
//go:embed page.css
var pageStyle string

// pagePolicy lets the page load nothing, from here or elsewhere.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// Description returns the description of the API: openapi.yaml.
func Description() []byte { return slices.Clone(description) }

// getDescription answers with the description.
func (a *API) getDescription(r *request) error {
	return r.Blob(http.StatusOK, typeYAML, description)
}

// getPage answers with the page.
func (a *API) getPage(r *request) error {
	r.Response().Header().Set("Content-Security-Policy", pagePolicy)
	return r.Blob(http.StatusOK, "text/html; charset=utf-8", a.page)
}

// pageData is what the page shows.
type pageData struct {
	Style       template.CSS
	Title, Text string
	Groups      []pageGroup
	Problems    []pageProblem
	Schemas     []pageSchema
}

type pageGroup struct {
	Name, Text string
	Routes     []pageRoute
}

type pageRoute struct {
	Method, Path, Summary, Text, Role string
	Parameters                        []pageParameter
	Bodies                            []pageBody
	Answers                           []pageAnswer
}

type pageParameter struct {
	Name, In, Type, Text string
	Required             bool
}

type pageBody struct{ Type, Schema string }

type pageAnswer struct{ Code, Text, Schema string }

type pageProblem struct {
	Name, Title, Text string
	Status            int
}

type pageSchema struct {
	Name, Text string
	Members    []pageParameter
}

// renderPage makes the page from the description.
func renderPage() ([]byte, error) {
	f, problems := yamlnode.Parse("openapi.yaml", description)
	if len(problems) > 0 || len(f.Documents) != 1 {
		return nil, fmt.Errorf("read the description of the API: %v", problems)
	}
	d := &describer{root: f.Documents[0]}
	data := pageData{Style: template.CSS(pageStyle), Title: text(d.root, "info", "title"), Text: text(d.root, "info", "description")} //nolint:gosec // our own style
	for _, tag := range at(d.root, "tags").Content {
		data.Groups = append(data.Groups, d.group(tag))
	}
	for _, k := range kinds {
		data.Problems = append(data.Problems, pageProblem{k.name, k.title, k.text, k.status})
	}
	for name, schema := range yamlnode.Pairs(at(d.root, "components", "schemas")) {
		data.Schemas = append(data.Schemas, d.schema(name.Value, schema))
	}
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return nil, fmt.Errorf("read the page of the API: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("write the page of the API: %w", err)
	}
	return b.Bytes(), nil
}

// describer reads the description.
type describer struct{ root *yamlnode.Node }

// nothing is what is not there.
var nothing = &yamlnode.Node{Kind: yamlnode.Map}

// at follows keys; what is not there is an empty mapping.
func at(n *yamlnode.Node, keys ...string) *yamlnode.Node {
	for _, k := range keys {
		if n = member(n, k); n == nil {
			return nothing
		}
	}
	return n
}

func text(n *yamlnode.Node, keys ...string) string { return strings.TrimSpace(at(n, keys...).Value) }

// resolve follows a reference.
func (d *describer) resolve(n *yamlnode.Node) *yamlnode.Node {
	if ref := text(n, "$ref"); ref != "" {
		return at(d.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return n
}

// group returns the routes with a tag, in written order.
func (d *describer) group(tag *yamlnode.Node) pageGroup {
	g := pageGroup{Name: text(tag, "name"), Text: text(tag, "description")}
	for p, item := range yamlnode.Pairs(at(d.root, "paths")) {
		for method, op := range yamlnode.Pairs(item) {
			tags := at(op, "tags").Content
			if len(tags) == 1 && tags[0].Value == g.Name {
				g.Routes = append(g.Routes, d.route(method.Value, p.Value, item, op))
			}
		}
	}
	return g
}

func (d *describer) route(method, path string, item, op *yamlnode.Node) pageRoute {
	r := pageRoute{
		Method: strings.ToUpper(method), Path: "/v1" + path, Summary: text(op, "summary"), Text: text(op, "description"), Role: text(op, "x-role"),
	}
	for _, n := range slices.Concat(at(item, "parameters").Content, at(op, "parameters").Content) {
		n = d.resolve(n)
		r.Parameters = append(r.Parameters, pageParameter{
			Name: text(n, "name"), In: text(n, "in"), Type: d.typeOf(at(n, "schema")), Text: text(n, "description"), Required: text(n, "required") == "true",
		})
	}
	for media, n := range yamlnode.Pairs(at(d.resolve(at(op, "requestBody")), "content")) {
		r.Bodies = append(r.Bodies, pageBody{media.Value, d.typeOf(at(n, "schema"))})
	}
	for code, n := range yamlnode.Pairs(at(op, "responses")) {
		n = d.resolve(n)
		a := pageAnswer{Code: code.Value, Text: text(n, "description")}
		for _, content := range yamlnode.Pairs(at(n, "content")) {
			a.Schema = d.typeOf(at(content, "schema"))
		}
		r.Answers = append(r.Answers, a)
	}
	return r
}

// typeOf says in a word what a schema admits.
func (d *describer) typeOf(n *yamlnode.Node) string {
	if ref := text(n, "$ref"); ref != "" {
		return ref[strings.LastIndexByte(ref, '/')+1:]
	}
	if items := at(n, "items"); items != nothing {
		return "list of " + d.typeOf(items)
	}
	var words []string
	for _, v := range at(n, "enum").Content {
		words = append(words, v.Value)
	}
	if len(words) > 0 {
		return strings.Join(words, ", ")
	}
	s := text(n, "type")
	if f := text(n, "format"); f != "" {
		s += " (" + f + ")"
	}
	return s
}

func (d *describer) schema(name string, n *yamlnode.Node) pageSchema {
	s := pageSchema{Name: name, Text: text(n, "description")}
	required := map[string]bool{}
	for _, r := range at(n, "required").Content {
		required[r.Value] = true
	}
	for k, v := range yamlnode.Pairs(at(n, "properties")) {
		s.Members = append(s.Members, pageParameter{Name: k.Value, Type: d.typeOf(v), Text: text(v, "description"), Required: required[k.Value]})
	}
	return s
}
