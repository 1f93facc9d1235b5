package conformance

import (
	"strings"
	"text/scanner"
)

// condition writes a step's condition in our expression language. Operators and fields are the same there; what differs
// is how a condition asks for what the match has taken: count, sum, first and last of a step become expressions over the
// step's list, over its one event, or over `taken` where the step asks for its own.
func (t *translator) condition(s *Step, text string) string {
	var sc scanner.Scanner
	sc.Init(strings.NewReader(text))
	sc.Mode = scanner.ScanIdents | scanner.ScanFloats | scanner.ScanStrings
	sc.Error = func(*scanner.Scanner, string) { t.missing = "condition " + text }

	var out strings.Builder
	for tok := sc.Scan(); tok != scanner.EOF; tok = sc.Scan() {
		word := sc.TokenText()
		if out.Len() > 0 && !joined(out.String(), word) {
			out.WriteByte(' ')
		}
		if tok == scanner.Ident && sc.Peek() == '(' {
			sc.Scan()
			word = t.call(s, word, argument(&sc))
		}
		out.WriteString(word)
	}
	return out.String()
}

// joined reports whether word goes on with the operator that stands before it: the scanner knows no operators of two
// characters.
func joined(before, word string) bool {
	switch last := before[len(before)-1]; word {
	case "=":
		return strings.IndexByte("=!<>", last) >= 0
	case "&", "|":
		return last == word[0] && !strings.HasSuffix(before, word+word)
	}
	return false
}

// argument reads up to the parenthesis that closes the call: names of peers may hold any character.
func argument(sc *scanner.Scanner) string {
	var arg strings.Builder
	for r := sc.Next(); r != ')' && r != scanner.EOF; r = sc.Next() {
		arg.WriteRune(r)
	}
	return arg.String()
}

// call writes a function of the peer.
func (t *translator) call(s *Step, function, arg string) string {
	step, field := arg, ""
	if i := strings.LastIndexByte(arg, '.'); i >= 0 && function != "count" {
		step, field = arg[:i], arg[i+1:]
	}
	of, known := t.places[step]
	list := t.names[step]
	switch {
	case function == "processing_time":
		return "now()"
	case !known:
		// The definition is wrong, and stays so: the name is none in our rule either.
		list = "s_" + identifier(step)
	case of.step == s:
		list = "taken"
	case !of.list:
		return t.single(list, of.maybe, function, field)
	}
	switch function {
	case "count":
		return "len(" + list + ")"
	case "sum":
		return "sum(" + list + ", ." + field + ")"
	case "first":
		return list + "[0]." + field
	case "last":
		return list + "[-1]." + field
	}
	t.missing = "function " + function
	return ""
}

// single writes a function over a step that takes one event, or none where it may be left out: then its name is missing,
// and no field of it equals itself.
func (t *translator) single(name string, maybe bool, function, field string) string {
	switch {
	case function == "first" || function == "last":
		return name + "." + field
	case function == "count" && maybe:
		return "(" + name + ".name == " + name + ".name ? 1 : 0)"
	case function == "count":
		return "1"
	case function == "sum" && maybe:
		return "(" + name + "." + field + " ?? 0)"
	case function == "sum":
		return name + "." + field
	}
	t.missing = "function " + function
	return ""
}
