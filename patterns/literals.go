package patterns

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/yamlnode"
)

// Values of any type stand in lists, maps, recorded events and expected fields. There, and only there, an unquoted scalar
// means what YAML's core schema says: 22 is a number, "22" a text.

// literal returns the value of a node. What has no value is reported, and missing.
func (r *reader) literal(n *yamlnode.Node) cep.Value {
	switch {
	case r.refused[n]:
		return cep.Value{}
	case n.Kind == yamlnode.List:
		list := make([]cep.Value, 0, len(n.Content))
		for _, item := range r.items(n, "a list") {
			list = append(list, r.literal(item))
		}
		return cep.List(list)
	case n.Kind == yamlnode.Map:
		members := make([]cep.Member, 0, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			if torn := r.torn(n, i); torn >= 0 {
				i += 2 * torn
				continue
			}
			if k := n.Content[i]; k.Kind != yamlnode.Scalar {
				r.wrongKind(k, "a field name", "a text")
			} else if !r.refused[k] {
				members = append(members, cep.Member{Name: k.Value, Value: r.literal(n.Content[i+1])})
			}
		}
		return cep.Object(members)
	}
	v, ok := scalarValue(n)
	if !ok {
		r.at(n, codeTableValue, "put it in quotes if it is a text", "%q is no number that JSON knows", n.Value)
	}
	return v
}

// scalarValue returns the value of a scalar; ok is false for infinities and NaN.
func scalarValue(n *yamlnode.Node) (_ cep.Value, ok bool) {
	switch kind := yamlnode.Core(n); kind {
	case yamlnode.CoreNull:
		return cep.Null, true
	case yamlnode.CoreTrue, yamlnode.CoreFalse:
		return cep.Bool(kind == yamlnode.CoreTrue), true
	case yamlnode.CoreInt:
		if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return cep.Int(i), true
		}
		return floatValue(n.Value)
	case yamlnode.CoreOctal, yamlnode.CoreHex:
		base := 16
		if kind == yamlnode.CoreOctal {
			base = 8
		}
		u, err := strconv.ParseUint(n.Value[2:], base, 64)
		switch {
		case err != nil:
			return cep.Value{}, false
		case u > math.MaxInt64:
			return cep.Float(float64(u)), true
		}
		return cep.Int(int64(u)), true
	case yamlnode.CoreFloat:
		return floatValue(n.Value)
	case yamlnode.CoreSpecial:
		return cep.Value{}, false
	default:
		return cep.String(n.Value), true
	}
}

func floatValue(s string) (cep.Value, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return cep.Float(f), err == nil
}

// jsonNumber is a number as JSON writes it.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// json appends a node as JSON text. Numbers keep their digits: an event may say more of them than a float can hold.
func (r *reader) json(dst []byte, n *yamlnode.Node) []byte {
	switch n.Kind {
	case yamlnode.List:
		dst = append(dst, '[')
		for i, item := range r.items(n, "a list") {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = r.json(dst, item)
		}
		return append(dst, ']')
	case yamlnode.Map:
		dst = append(dst, '{')
		first := true
		for i := 0; i+1 < len(n.Content); i += 2 {
			if torn := r.torn(n, i); torn >= 0 {
				i += 2 * torn
				continue
			}
			k := n.Content[i]
			if k.Kind != yamlnode.Scalar {
				r.wrongKind(k, "a field name", "a text")
				continue
			}
			if r.refused[k] {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(cep.AppendJSONString(dst, k.Value), ':')
			dst = r.json(dst, n.Content[i+1])
		}
		return append(dst, '}')
	default:
		if k := yamlnode.Core(n); k == yamlnode.CoreInt || k == yamlnode.CoreFloat {
			if digits := strings.TrimPrefix(n.Value, "+"); jsonNumber.MatchString(digits) {
				return append(dst, digits...)
			}
		}
		return cep.AppendJSON(dst, r.literal(n))
	}
}
