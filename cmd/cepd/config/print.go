package config

import (
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/cepd/cepd/internal/yamlnode"
)

// Print writes the configuration that is in force, as a file that says all of it: reading that file gives the same
// configuration, wherever it stands. With origins each line says where its value was written. Secrets are left out.
func (c *Config) Print(w io.Writer, origins bool) error {
	p := &printer{origins: origins, places: c.places}
	p.line(0, "version: 1", "")
	p.section(0, "", c.settings())
	width := 0
	for _, l := range p.lines {
		if l.origin != "" {
			width = max(width, len(l.text))
		}
	}
	for _, l := range p.lines {
		text := l.text
		if l.origin != "" {
			text = fmt.Sprintf("%-*s  # %s", min(width, maxAligned), text, l.origin)
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

// maxAligned is the longest line that decides where the origins begin: one long list must not push all of them away.
const maxAligned = 60

type printedLine struct{ text, origin string }

type printer struct {
	origins bool
	places  places
	lines   []printedLine
}

func (p *printer) line(indent int, text, origin string) {
	p.lines = append(p.lines, printedLine{strings.Repeat("  ", indent) + text, origin})
}

// origin says where a setting was written.
func (p *printer) origin(path string) string {
	if !p.origins {
		return ""
	}
	if at, ok := p.places[path]; ok {
		return at.origin
	}
	return "default"
}

func (p *printer) section(indent int, path string, settings section) {
	for i := range settings {
		s := &settings[i]
		at := path
		if s.name != "" {
			at = join(path, s.name)
		}
		switch v := s.value.(type) {
		case *scalar:
			text := v.get()
			switch {
			case v.secret && text != "":
				p.line(indent, "# "+s.name+" is set by "+p.places[at].origin, "")
			case text != "" && !v.secret:
				p.line(indent, s.name+": "+scalarText(absolute(v, text)), p.origin(at))
			}
		case *list:
			if items := v.get(); len(items) > 0 {
				var texts []string
				for _, item := range items {
					if v.paths {
						item = absolutePath(item)
					}
					texts = append(texts, scalarText(item))
				}
				p.line(indent, s.name+": ["+strings.Join(texts, ", ")+"]", p.origin(at))
			}
		case *pairs:
			if all := v.get(); len(all) > 0 {
				p.line(indent, s.name+":", p.origin(at))
				for _, pair := range all {
					p.line(indent+1, scalarText(pair[0])+": "+scalarText(pair[1]), "")
				}
			}
		case section:
			p.line(indent, s.name+":", "")
			begun := len(p.lines)
			if p.section(indent+1, at, v); len(p.lines) == begun {
				p.lines = p.lines[:begun-1] // a key without a value would be a mistake
			}
		case *choice:
			if s.name != "" {
				p.line(indent, s.name+":", "")
				p.choice(indent+1, at, v)
			} else {
				p.choice(indent, at, v)
			}
		case *named:
			p.line(indent, s.name+":", "")
			for _, n := range v.all() {
				p.line(indent+1, scalarText(n.name)+":", "")
				p.section(indent+2, join(at, n.name), n.settings)
			}
		}
	}
}

func (p *printer) choice(indent int, path string, c *choice) {
	for _, o := range c.options {
		if m := o.made(); m != nil {
			p.line(indent, o.name+":", "")
			p.section(indent+1, join(path, o.name), m)
		}
	}
}

// absolute is the text of a setting, with a path as it is seen from everywhere.
func absolute(s *scalar, text string) string {
	if s.path && text != "-" {
		return absolutePath(text)
	}
	return text
}

func absolutePath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// plainShape are texts that need no quotes anywhere.
var plainShape = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./+@-]*$`)

// scalarText writes a text so that YAML reads the same.
func scalarText(s string) string {
	if plainShape.MatchString(s) && !yamlnode.IsNull(&yamlnode.Node{Kind: yamlnode.Scalar, Value: s}) {
		return s
	}
	return strconv.Quote(s)
}
