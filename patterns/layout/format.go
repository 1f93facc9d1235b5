package layout

import (
	"fmt"
	"slices"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns"
)

// Refusal is why a file that can be read is not laid out.
type Refusal struct {
	patterns.Pos
	Reason string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Pos, r.Reason) }

// Format lays out the text of a YAML file. The error is [patterns.Diagnostics] where the file cannot be read, and a
// [*Refusal] where it has something that no rule and no configuration has.
func Format(name string, data []byte) ([]byte, error) {
	source, diagnostics := patterns.Mend(patterns.Source{Name: name, Data: data})
	if len(diagnostics) > 0 {
		return nil, diagnostics
	}
	s, err := scan(name, source.Data)
	if err != nil {
		return nil, err
	}
	out := write(s.tokens)
	again, err := scan(name, out)
	switch {
	case err != nil:
		return nil, s.refuse(1, 1, "laid out it could not be read: %v", err)
	case !slices.EqualFunc(s.file.Documents, again.file.Documents, equal):
		return nil, s.refuse(1, 1, "laid out it would mean something else")
	case !slices.Equal(s.comments(), again.comments()):
		return nil, s.refuse(1, 1, "laid out it would lose a comment")
	}
	return out, nil
}

// equal reports whether two nodes say the same: only the places, and the kind of quotes, may differ.
func equal(a, b *yamlnode.Node) bool {
	return a.Kind == b.Kind && a.Value == b.Value && yamlnode.Core(a) == yamlnode.Core(b) && slices.EqualFunc(a.Content, b.Content, equal)
}
