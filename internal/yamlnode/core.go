package yamlnode

import "regexp"

// CoreKind is what an unquoted scalar means by YAML's core schema.
type CoreKind uint8

// The kinds of the core schema.
const (
	CoreString CoreKind = iota
	CoreNull
	CoreTrue
	CoreFalse
	CoreInt   // decimal
	CoreOctal // 0o17
	CoreHex   // 0x1F
	CoreFloat
	CoreSpecial // .inf, -.inf and .nan: numbers that JSON does not have
)

// The patterns stand in section 10.3.2 of the YAML 1.2.2 specification.
var (
	coreInt     = regexp.MustCompile(`^[-+]?[0-9]+$`)
	coreOctal   = regexp.MustCompile(`^0o[0-7]+$`)
	coreHex     = regexp.MustCompile(`^0x[0-9a-fA-F]+$`)
	coreFloat   = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	coreSpecial = regexp.MustCompile(`^([-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN)$`)
)

// Core says what a scalar means where values of any type may stand: in lists, maps and recorded events.
func Core(n *Node) CoreKind {
	switch {
	case n.Kind != Scalar, IsQuoted(n):
		return CoreString
	case IsNull(n):
		return CoreNull
	}
	switch n.Value {
	case "true", "True", "TRUE":
		return CoreTrue
	case "false", "False", "FALSE":
		return CoreFalse
	}
	switch c := n.Value[0]; {
	case c != '.' && c != '-' && c != '+' && (c < '0' || c > '9'):
		return CoreString // the usual case, without five regular expressions
	case coreInt.MatchString(n.Value):
		return CoreInt
	case coreOctal.MatchString(n.Value):
		return CoreOctal
	case coreHex.MatchString(n.Value):
		return CoreHex
	case coreFloat.MatchString(n.Value):
		return CoreFloat
	case coreSpecial.MatchString(n.Value):
		return CoreSpecial
	}
	return CoreString
}
