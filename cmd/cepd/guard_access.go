package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/rules/rulesapi"
)

const (
	// grantsMax bounds the entries of an access file, and with them what a request is compared with: 1,000 comparisons take
	// some 20 microseconds.
	grantsMax = 1000
	// hashesMax is how many tokens or certificates an entry may have: an old and a new one while they are exchanged, and some
	// machines of one kind.
	hashesMax = 16
	// accessBytes bounds the file: 1,000 entries with two tokens have some 200 KiB.
	accessBytes = yamlnode.MaxBytes
	// hashPrefix stands before the hash of a token: another function could be told from it.
	hashPrefix = "sha256:"
	// certificateName bounds the name of a certificate: that of a host has 253 bytes.
	certificateName = 253
)

// access says who may do what. It is immutable.
type access struct{ grants []*grant }

// grant is what a name may do.
type grant struct {
	name string
	// role is what it may see and change; 0: nothing.
	role rulesapi.Role
	// push are the streams that it may send events to, pushAll: all of them.
	push    []string
	pushAll bool
	// It is proved by a token with one of the hashes, or by a certificate with one of the names.
	hashes       [][sha256.Size]byte
	certificates []string
}

// maySend reports whether events of the stream may be sent.
func (g *grant) maySend(stream string) bool { return g.pushAll || slices.Contains(g.push, stream) }

// byToken returns the grant of a token, nil where there is none. All are compared, each in constant time: how long it takes
// says nothing of how near a token is.
func (a *access) byToken(token string) *grant {
	sum := sha256.Sum256([]byte(token))
	var found *grant
	for _, g := range a.grants {
		for i := range g.hashes {
			if subtle.ConstantTimeCompare(sum[:], g.hashes[i][:]) == 1 {
				found = g
			}
		}
	}
	return found
}

// byCertificate returns the grant of the first of the names that has one, nil where none has.
func (a *access) byCertificate(names []string) *grant {
	for _, name := range names {
		for _, g := range a.grants {
			if slices.Contains(g.certificates, name) {
				return g
			}
		}
	}
	return nil
}

// readAccess reads a file that says who may do what.
func readAccess(file string) (*access, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, fmt.Errorf("http.tokens: %w", plainPath(err))
	case info.Size() > accessBytes:
		return nil, fmt.Errorf("http.tokens: %s has %d bytes, and such a file has at most %d", file, info.Size(), accessBytes)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("http.tokens: %w", plainPath(err))
	}
	return parseAccess(file, data) // its errors name the file
}

// parseAccess reads the text of such a file: all of its mistakes are the error.
func parseAccess(name string, data []byte) (*access, error) {
	file, problems := yamlnode.Parse(name, data)
	r := &accessReader{file: file, taken: map[string]bool{}}
	for _, p := range problems {
		r.errs = append(r.errs, fmt.Errorf("%s:%d:%d: %s", name, p.Line, p.Column, p.Message))
	}
	if len(r.errs) == 0 {
		r.read()
	}
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	return &access{r.grants}, nil
}

// accessReader reads an access file.
type accessReader struct {
	file   *yamlnode.File
	grants []*grant
	// taken are the tokens and certificates that prove a name already.
	taken map[string]bool
	errs  []error
}

func (r *accessReader) wrong(n *yamlnode.Node, format string, args ...any) {
	if len(r.errs) < 100 { // nobody reads more before mending some
		r.errs = append(r.errs, fmt.Errorf("%s:%d:%d: %s", r.file.Name, n.Line, n.Column, fmt.Sprintf(format, args...)))
	}
}

func (r *accessReader) read() {
	switch len(r.file.Documents) {
	case 0:
		r.errs = append(r.errs, fmt.Errorf("%s: the file is empty; begin with version: 1", r.file.Name))
		return
	case 1:
	default:
		r.wrong(r.file.Documents[1], "the file is one document, and here begins another")
	}
	root := r.file.Documents[0]
	version, list := "", (*yamlnode.Node)(nil)
	r.keys(root, "the file", map[string]func(*yamlnode.Node){
		"version": func(v *yamlnode.Node) { version = v.Value },
		"access":  func(v *yamlnode.Node) { list = v },
	})
	switch {
	case version != "1":
		r.wrong(root, "this program knows version 1 of the file: write version: 1")
	case list == nil || list.Kind != yamlnode.List || len(list.Content) == 0:
		r.wrong(root, "write access: and a list of entries with name, role, and tokens or certificates")
	case len(list.Content) > grantsMax:
		r.wrong(list, "there are %d entries, and at most %d are looked at", len(list.Content), grantsMax)
	default:
		names := map[string]bool{}
		for _, item := range list.Content {
			g := r.grant(item)
			if g != nil && names[g.name] {
				r.wrong(item, "%q is there already; an entry may have several tokens", g.name)
			}
			if g != nil {
				names[g.name] = true
				r.grants = append(r.grants, g)
			}
		}
	}
}

// keys reads a map.
func (r *accessReader) keys(n *yamlnode.Node, what string, known map[string]func(*yamlnode.Node)) {
	if n.Kind != yamlnode.Map {
		r.wrong(n, "%s must be a map of keys and values", what)
		return
	}
	for k, v := range yamlnode.Pairs(n) {
		if f := known[k.Value]; f != nil {
			f(v)
			continue
		}
		names := make([]string, 0, len(known))
		for name := range known {
			names = append(names, name)
		}
		slices.Sort(names)
		r.wrong(k, "%s has no key %q%s; there are %s", what, k.Value, didYouMean("%s", k.Value, names), strings.Join(names, ", "))
	}
}

// isAccessName is what a name looks like: it stands in logs.
var isAccessName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// grant reads an entry.
func (r *accessReader) grant(n *yamlnode.Node) *grant {
	g, before := &grant{}, len(r.errs)
	r.keys(n, "an entry", map[string]func(*yamlnode.Node){
		"name": func(v *yamlnode.Node) {
			if g.name = v.Value; !isAccessName.MatchString(g.name) {
				r.wrong(v, "a name has up to 64 letters, digits and . _ @ -, and begins with a letter or digit")
			}
		},
		"role": func(v *yamlnode.Node) {
			role, ok := rulesapi.ParseRole(v.Value)
			if g.role = role; !ok {
				roles := rulesapi.RoleNames()
				r.wrong(v, "there is no role %q%s; there are %s", v.Value, didYouMean("%s", v.Value, roles), strings.Join(roles, ", "))
			}
		},
		"push": func(v *yamlnode.Node) {
			if v.Kind == yamlnode.Scalar && v.Value == "all" {
				g.pushAll = true
				return
			}
			r.texts(v, "push: write all, or a list of streams", func(item *yamlnode.Node) { g.push = append(g.push, item.Value) })
		},
		"tokens": func(v *yamlnode.Node) {
			r.texts(v, "tokens: write a list of hashes", func(item *yamlnode.Node) { r.hash(g, item) })
		},
		"certificates": func(v *yamlnode.Node) {
			r.texts(v, "certificates: write a list of names", func(item *yamlnode.Node) {
				if len(item.Value) > certificateName {
					r.wrong(item, "the name of a certificate has at most %d bytes", certificateName)
				}
				r.once(item, "certificate", item.Value)
				g.certificates = append(g.certificates, item.Value)
			})
		},
	})
	switch {
	case len(r.errs) > before:
		return nil
	case g.name == "":
		r.wrong(n, "an entry needs a name")
	case g.role == rulesapi.NoRole && !g.pushAll && len(g.push) == 0:
		r.wrong(n, "%s may do nothing: write role: viewer, editor or admin, or push: and streams", g.name)
	case len(g.hashes) == 0 && len(g.certificates) == 0:
		r.wrong(n, "nothing proves who %s is: write tokens: [%s...], as `cepd token new` prints it, or certificates: and names", g.name, hashPrefix)
	case len(g.hashes) > hashesMax || len(g.certificates) > hashesMax:
		r.wrong(n, "%s has more than %d tokens or certificates", g.name, hashesMax)
	default:
		return g
	}
	return nil
}

// texts reads a list of texts.
func (r *accessReader) texts(v *yamlnode.Node, what string, add func(*yamlnode.Node)) {
	if v.Kind != yamlnode.List || len(v.Content) == 0 {
		r.wrong(v, "%s", what)
		return
	}
	for _, item := range v.Content {
		if item.Kind != yamlnode.Scalar || item.Value == "" {
			r.wrong(item, "%s", what)
			continue
		}
		add(item)
	}
}

// hash reads the hash of a token. What it says of a mistake never shows the text: a token may stand there by mistake.
func (r *accessReader) hash(g *grant, n *yamlnode.Node) {
	text, ok := strings.CutPrefix(n.Value, hashPrefix)
	sum, err := hex.DecodeString(text)
	if !ok || err != nil || len(sum) != sha256.Size {
		r.wrong(n, "a token is written as %s and 64 hex digits: `cepd token hash` makes that of a token. If the token itself stands here, it is no secret any more", hashPrefix)
		return
	}
	r.once(n, "token", hex.EncodeToString(sum))
	g.hashes = append(g.hashes, [sha256.Size]byte(sum))
}

// once holds a token or certificate to it that it stands there once.
func (r *accessReader) once(n *yamlnode.Node, kind, text string) {
	key := kind + " " + text
	if r.taken[key] {
		r.wrong(n, "the %s stands here a second time: it can prove one name only", kind)
	}
	r.taken[key] = true
}
