package expression

import (
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/parser/lexer"
)

// What people write who know SQL, KQL, EQL, Sigma, Splunk's language or that of a program, and what is meant by it here.

// usualMistakes are words and signs of other languages that stand where no word can.
var usualMistakes = map[string]string{
	"=": "write == to compare", "===": "write ==", "eq": "write ==", "equals": "write ==", "is": "write ==: x == nil, x != nil, x == true",
	"ne": "write !=", "isnot": "write !=", ">": "write != for not equal, => does not exist",
	"gt": "write >", "gte": "write >=", "ge": "write >=", "lt": "write <", "lte": "write <=", "le": "write <=",
	":":   `write ==, or like(name, "b*") with wildcards; around a colon of a choice, a ? b : c, stand both sides`,
	"&":   "write and",
	"and": "write and in lower case",
	"or":  "write or in lower case",
	"not": "write not in lower case",
	"xor": "write != between the two: (a) != (b)",
	"in":  "write in, or not in, in lower case", "nin": "write not in", "notin": "write not in",
	"matches": "write matches in lower case", "rlike": "write matches", "regexp": "write matches", "regex": "write matches", "similar": "write matches",
	"contains": "write contains in lower case", "has": "write contains", "contains_cs": "write contains", "has_cs": "write contains",
	"icontains": `write like(name, "*b*"), which takes upper and lower case alike`, "includes": "write contains",
	"notcontains": "write not contains", "doesnotcontain": "write not contains",
	"startswith": "write startsWith", "startswith_cs": "write startsWith", "hasprefix": "write startsWith", "starts": "write startsWith",
	"endswith": "write endsWith", "endswith_cs": "write endsWith", "hassuffix": "write endsWith", "ends": "write endsWith",
	"like":    `like is a function: like(name, "*.exe")`,
	"ilike":   `like is a function, and upper and lower case alike to it: like(name, "*.exe")`,
	"between": "write a <= x and x <= b", "exists": "write x != nil", "instanceof": `write type(x) == "string"`,
	"mod": "write %", "div": "write /",
	"then": "write condition ? a : b", "when": "write condition ? a : b", "if": "write condition ? a : b",
	"by":    `what events have in common is the "by" of the rule, how many there must be the "times" of a step`,
	"where": "an expression is the condition alone",
	"of":    "write the conditions out: a == 1 or b == 2",
	"|":     "there are no pipes: what is counted is a step with times, what is grouped by is the key",
	".":     "a leading dot means the element of any, all, map and the like",
	"#":     "# means the element of any, all, map and the like; a comment stands behind the whole value, outside of its quotes",
}

// functionHints are functions of other languages, in lower case and without _, by what is written here.
var functionHints = map[string][]string{
	"write len(x)":                    {"size", "length", "strlen", "charlength", "stringlength", "arraylength", "mvcount", "cardinality"},
	`write x startsWith "y"`:          {"startswith", "beginswith"},
	`write x endsWith "y"`:            {"endswith"},
	`write x contains "y"`:            {"contains", "strpos", "instr", "locate", "indexofregex", "stringcontains"},
	"write x in [a, b], or y in list": {"in", "inlist", "arraycontains", "hasany", "isin", "mvfind", "setcontains"},
	`write x matches "y"`:             {"regex", "match", "regexp", "rlike", "regexplike", "regexpmatch", "matchesregex", "ismatch", "test", "re"},
	`write like(x, "*.exe")`:          {"wildcard", "ilike", "globmatch", "searchmatch"},
	`write cidr(ip, "10.0.0.0/8")`:    {"cidrmatch", "ipv4isinrange", "ipinrange", "ipv4ismatch", "incidr", "cidrcontains", "ipisinrange", "cidrsubnet"},
	"write mean(list, .field)":        {"avg", "average"},
	"write len(uniq(map(list, .field))), or distinct: field on the step": {
		"distinct", "dc", "dcount", "countdistinct", "distinctcount", "approxcountdistinct", "nunique",
	},
	"write x != nil":          {"exists", "has", "isset", "defined", "isnotnull", "isnotempty", "notnull", "ispresent"},
	"write x == nil":          {"isnull", "isempty", "isblank", "isnil", "missing", "isundefined"},
	"write a ?? b":            {"coalesce", "ifnull", "nvl", "iffnull", "isnullor", "firstnonnull"},
	"write condition ? a : b": {"if", "iif", "iff", "case", "when", "decode"},
	"write a + b":             {"concatws", "strcat", "stringconcat"},
	"write ts(e)":             {"timestamp", "totimestamp", "unixtimestamp", "fromunixtime", "strptime", "todatetime", "todate", "epoch"},
	"rules know event time only; ts(e) is the time of the event, \"within\" how old others may be": {"ago", "currenttimestamp", "getdate", "today", "sysdate", "curdate", "localtimestamp", "utcnow"},
	"write minutes(ts(b) - ts(a)), or hours, or seconds":                                           {"datediff", "timediff", "timestampdiff", "datetimediff", "timedelta"},
	"write weekday(e)":                 {"dayofweek", "dow", "isodow"},
	"write hour(e, \"Europe/Zurich\")": {"hourofday", "gethour", "datepart", "extract", "strftime", "formatdate", "dateformat", "datetimepart"},
	"write lower(x)":                   {"tolower", "lcase", "lowercase", "downcase"},
	"write upper(x)":                   {"toupper", "ucase", "uppercase", "upcase"},
	"write x[0:3]":                     {"substr", "substring", "mid", "left", "right", "slice"},
	"write float(x), or int(x)":        {"tonumber", "todouble", "cast", "todecimal", "number", "parsefloat", "toreal"},
	"write int(x)":                     {"tointeger", "toint", "tolong", "parseint", "bigint", "integer"},
	"write string(x)":                  {"tostring", "str", "tochar", "varchar"},
	"write type(x)":                    {"typeof", "gettype"},
	"write fromJSON(x)":                {"parsejson", "jsonextract", "spath", "jsonvalue", "todynamic", "jsonparse"},
	"write geo_km(a, b)":               {"geodistance", "haversine", "geodistance2points", "stdistance", "distance"},
	"write x ** 2":                     {"pow", "power"},
	"write x % 2":                      {"mod", "modulo"},
	"write max(a, b)":                  {"greatest", "maxof"},
	"write min(a, b)":                  {"least", "minof"},
	"write prev.field for the event before, in the condition of a step":    {"lag", "prev", "previous", "prior"},
	"a condition sees no later events: put it into a later step":           {"lead", "next"},
	"write step[-1].field for the last event, step[0].field for the first": {"lastvalue", "firstvalue", "latest", "earliest", "anyvalue"},
	"the window is the \"within\" of the rule":                             {"window", "tumble", "hop", "session", "bin", "timewindow"},
}

// functionHint says how to write what a function of another language does; "" for one that is not known.
func functionHint(name string) string {
	name = strings.ToLower(strings.ReplaceAll(name, "_", ""))
	for hint, names := range functionHints {
		if slices.Contains(names, name) {
			return hint
		}
	}
	return ""
}

// foreign finds what is meant by a mistake at a token from what stands around it; "" where nothing is known.
func foreign(tokens []lexer.Token, at int) string {
	i := slices.IndexFunc(tokens, func(t lexer.Token) bool { return t.From == at })
	if i < 0 {
		return ""
	}
	token := func(i int) lexer.Token {
		if i < 0 || i >= len(tokens) {
			return lexer.Token{Kind: lexer.EOF}
		}
		return tokens[i]
	}
	word, before, behind := token(i), token(i-1), token(i+1)
	switch {
	case word.Kind == lexer.Operator && behind.Is(lexer.Bracket, "(") && textWords[word.Value]:
		return "it stands between the two: write x " + word.Value + " \"y\""
	case word.Is(lexer.Operator, "in") && behind.Is(lexer.Bracket, "("):
		return "it stands between the two: write x in [a, b]"
	case word.Kind == lexer.Operator && textWords[word.Value] && before.Is(lexer.Operator, "|"):
		return "there are no modifiers: write name " + word.Value + " \"y\""
	case word.Is(lexer.Bracket, ")") && before.Is(lexer.Bracket, "(") && token(i-2).Is(lexer.Identifier, "count"):
		return countHint
	case before.Kind == lexer.Identifier && prefixes[strings.ToLower(before.Value)] != "" && word.Kind != lexer.EOF && !word.Is(lexer.Bracket, "("):
		return prefixes[strings.ToLower(before.Value)]
	case word.Is(lexer.Operator, "==", "!=", "<", "<=", ">", ">=", "in", "=") && before.Is(lexer.Operator, "and", "or", "&&", "||") && !isMember(word, behind) && !goesOn(behind):
		return "what is compared stands before each: x == \"a\" or x == \"b\", or x in [\"a\", \"b\"]"
	case word.Is(lexer.Operator, "!") && behind.Is(lexer.Operator, "in", "contains", "startsWith", "endsWith", "matches"):
		return "write not " + behind.Value
	case word.Is(lexer.Operator, "/") && before.Is(lexer.Operator, "matches"):
		return "a regular expression is a text: matches \"^a\""
	case word.Is(lexer.Operator, "!") && before.Is(lexer.Operator, "matches"):
		return ""
	case word.Kind == lexer.Number && strings.HasPrefix(word.Value, ".") && before.Kind == lexer.Number:
		return "an address is a text: ip == \"10.0.0.1\", or cidr(ip, \"10.0.0.0/8\")"
	case word.Kind == lexer.Number && strings.HasPrefix(word.Value, "."):
		return "an element of a list is x[0]"
	case word.Is(lexer.Operator, "*") && before.Is(lexer.Bracket, "("):
		return countHint
	case word.Is(lexer.Bracket, "{") && before.Is(lexer.Identifier, "$"):
		return "a part of the key is $key.user, a list $name"
	case word.Is(lexer.Operator, ",") && before.Kind == lexer.Number && behind.Kind == lexer.Number && !enclosed(tokens[:i]):
		return "write the number without a comma"
	case word.Is(lexer.Operator, ","):
		switch opener := openerOf(tokens[:i]); {
		case token(opener-1).Is(lexer.Operator, "in"):
			return "a list stands in square brackets: in [1, 2]"
		case token(opener-1).Is(lexer.Operator, "if"):
			return "write condition ? a : b"
		case opener < 0:
			return "write and, or or"
		}
	case slices.ContainsFunc(tokens[:i], func(t lexer.Token) bool { return t.Is(lexer.Operator, "|") }):
		return usualMistakes["|"]
	}
	return ""
}

const countHint = "how often is the times of a step; len(step) is the number of events that it took"

// textWords are the operators that test texts.
var textWords = map[string]bool{"contains": true, "startsWith": true, "endsWith": true, "matches": true}

// prefixes are words of other languages with something behind them.
var prefixes = map[string]string{
	"not": "write not in lower case", "defined": "write x != nil", "exists": "write x != nil", "case": "write condition ? a : b",
	"any": "write the conditions out: a == 1 or b == 2", "all": "write the conditions out: a == 1 and b == 2", "select": "an expression is the condition alone",
	"where": "an expression is the condition alone",
}

// openerOf returns the bracket that is still open behind some tokens, -1 where none is.
func openerOf(tokens []lexer.Token) int {
	depth := 0
	for i, t := range slices.Backward(tokens) {
		switch {
		case t.Is(lexer.Bracket, ")", "]", "}"):
			depth++
		case t.Kind == lexer.Bracket && depth == 0:
			return i
		case t.Kind == lexer.Bracket:
			depth--
		}
	}
	return -1
}

func enclosed(tokens []lexer.Token) bool { return openerOf(tokens) >= 0 }

// unread explains what cannot even be divided into words: a character that the language does not have, a number or string
// that is none.
func unread(text []rune, at int, message, hint string) (_, _ string) {
	at = min(at, len(text)-1)
	if strings.HasPrefix(message, "bad number syntax") {
		if m := durationBehind.FindString(string(text[wordStart(text, at):])); m != "" {
			return message, `a duration is duration("` + m + `"), or seconds(d) of one`
		}
		return message, "put it in quotes if it is a text"
	}
	if strings.HasPrefix(message, "invalid char escape") || strings.Contains(message, "escape") {
		return "a backslash begins an escape that does not exist", `write \\ for a backslash`
	}
	if !strings.HasPrefix(message, "unrecognized character") {
		return message, hint
	}
	c := text[at]
	message = "there is no " + string(c) + " in this language"
	before := strings.TrimRight(string(text[:at]), " ")
	switch c {
	case '~':
		switch {
		case strings.HasSuffix(before, "!"):
			return message, `write not matches: name not matches "regular expression"`
		case strings.HasSuffix(before, "in"):
			return message, `write lower(name) in ["a", "b"]`
		case strings.HasSuffix(before, "like"):
			return message, `like is a function, and upper and lower case alike to it: like(name, "*.exe")`
		}
		return message, `write matches: name matches "regular expression"`
	case '@':
		if m := oddName.FindString(string(text[at:])); m != "" {
			return message, `write e["` + m + `"] for the field of this name`
		}
	case '“', '”', '„', '‘', '’', '«', '»':
		return message, "write straight quotes: \""
	case '≥':
		return message, "write >="
	case '≤':
		return message, "write <="
	case '≠':
		return message, "write !="
	case '\\':
		return message, `a backslash stands in texts only: "C:\\Windows"`
	}
	return message, ""
}

// wordStart is where the word at an offset begins.
func wordStart(text []rune, at int) int {
	for at > 0 && isWordRune(text[at-1]) {
		at--
	}
	return at
}

func isWordRune(r rune) bool {
	return r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

var (
	durationBehind = regexp.MustCompile(`^\d+(ms|[smhdw])\b`)
	oddName        = regexp.MustCompile(`^@[A-Za-z_][\w.]*`)
)

// misplaced finds a word of the language where a value should stand: at the mistake, or, as not and let want something
// behind them, right before it. The hint depends on what is behind the word: it is meant as a name, or a value is missing.
func misplaced(tokens []lexer.Token, at int) (word lexer.Token, hint string, ok bool) {
	i := slices.IndexFunc(tokens, func(t lexer.Token) bool { return t.From == at && t.Kind != lexer.EOF })
	if i < 0 {
		return word, "", false
	}
	token := func(i int) lexer.Token {
		if i < 0 || i >= len(tokens) {
			return lexer.Token{Kind: lexer.EOF}
		}
		return tokens[i]
	}
	if word = tokens[i]; word.Kind == lexer.Operator && slices.Contains(operatorWords, word.Value) {
		switch next := token(i + 1); {
		case isMember(word, next), goesOn(next), next.Kind == lexer.EOF && !prefixWord(word), closes(next):
			return word, word.Value + nameHint + word.Value, true
		case prefixWord(word):
			return word, usualMistakes[word.Value], true
		default:
			return word, "an operand is missing before it", true
		}
	}
	next := word
	switch word = token(i - 1); {
	case word.Is(lexer.Identifier, "true", "false", "nil") && isMember(word, next),
		prefixWord(word) && (isMember(word, next) || goesOn(next) || closes(next) && opens(token(i-2))):
		return word, word.Value + nameHint + word.Value, true
	}
	return word, "", false
}

const nameHint = " is a word of the language: no step can have this name, and a field that has it is e."

// prefixWord tells the words with nothing but their operand behind them.
func prefixWord(t lexer.Token) bool { return t.Is(lexer.Operator, "not", "let", "if", "else") }

// isMember reports whether a token takes a member of what stands right before it.
func isMember(before, t lexer.Token) bool {
	return t.From == before.To && (t.Is(lexer.Operator, ".", "?.") || t.Is(lexer.Bracket, "["))
}

// goesOn reports whether a token is an operator that wants a value before it, other than a sign.
func goesOn(t lexer.Token) bool {
	return t.Kind == lexer.Operator && !t.Is(lexer.Operator, "!", "#", ".", ",", "+", "-", "::") && !prefixWord(t)
}

func opens(t lexer.Token) bool { return t.Is(lexer.Bracket, "(", "[") || t.Is(lexer.Operator, ",") }

func closes(t lexer.Token) bool {
	return t.Is(lexer.Bracket, ")", "]", "}") || t.Is(lexer.Operator, ",")
}
