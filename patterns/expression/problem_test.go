package expression

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestProblems holds each mistake to its code, the text it points at, and a part of its message and hint.
func TestProblems(t *testing.T) {
	for _, c := range []struct{ text, code, at, message, hint string }{
		// Syntax.
		{``, codeSyntax, "", "empty", ""},
		{`a ==`, codeSyntax, "", "ends too early", ""},
		{`(a == 1`, codeSyntax, "", "ends too early", "bracket"},
		{`a = 1`, codeSyntax, "=", `unexpected "="`, "write =="},
		{`a == 1 AND b`, codeSyntax, "AND", `"AND"`, "write and"},
		{`a <> 1`, codeSyntax, ">", "", "!="},
		{`name like "x"`, codeSyntax, "like", "", "like is a function"},
		{`a is null`, codeSyntax, "is", "", "== nil"},
		{`a == "x`, codeSyntax, "", "no end", ""},
		{`a ?? b == c`, codeSyntax, "==", "", "brackets"},
		{`.x == 1`, codeSyntax, ".", "", "any"},
		{`a == 1; b == 2`, codeRefused, "", "", "and"},
		{"ä == 'ö' )", codeSyntax, ")", "", ""},
		{`a == 'x\q'`, codeSyntax, "", "escape", ""},
		{"a == \x00", codeSyntax, "", "", ""},
		{`user CONTAINS "x"`, codeSyntax, "CONTAINS", "", "write contains"},
		{`user startswith "x"`, codeSyntax, "startswith", "", "write startsWith"},
		// Words and signs of other languages.
		{`contains(name, "b")`, codeSyntax, "contains", "", `x contains "y"`},
		{`a == 1 and startsWith(name, "b")`, codeSyntax, "startsWith", "", `x startsWith "y"`},
		{`matches("a", name)`, codeSyntax, "matches", "", `x matches "y"`},
		{`startswith(name, "b")`, codeFunction, "startswith", "", `x startsWith "y"`},
		{`ENDSWITH(name, "b")`, codeFunction, "ENDSWITH", "", `x endsWith "y"`},
		{`not in(a, [1])`, codeSyntax, "in", "", "x in [a, b]"},
		{`name =~ "b"`, codeSyntax, "~", "no ~", "matches"},
		{`name ~ "b"`, codeSyntax, "~", "no ~", "matches"},
		{`name !~ "b"`, codeSyntax, "~", "no ~", "not matches"},
		{`name in~ ("a")`, codeSyntax, "~", "", "lower(name) in"},
		{`name like~ "a*"`, codeSyntax, "~", "", "like(name"},
		{`name : "b*"`, codeSyntax, ":", "", "write =="},
		{`name|contains == "b"`, codeSyntax, "contains", "", "write name contains"},
		{`name ilike "b"`, codeSyntax, "ilike", "", "like(name"},
		{`name rlike "b"`, codeSyntax, "rlike", "", "matches"},
		{`name has "b"`, codeSyntax, "has", "", "contains"},
		{`code eq 4`, codeSyntax, "eq", "", "write =="},
		{`code gte 4`, codeSyntax, "gte", "", "write >="},
		{`kind in (1, 2)`, codeSyntax, ",", "", "in [1, 2]"},
		{`kind in {"a", "b"}`, codeSyntax, ",", "", "in [1, 2]"},
		{`kind in ("a")`, codeType, `kind in ("a"`, "", `kind in ["a"]`},
		{`a == "x", b == "y"`, codeSyntax, ",", "", "and, or or"},
		{`amount > 1,000`, codeSyntax, ",", "", "without a comma"},
		{`NOT kind == 3`, codeSyntax, "kind", "", "not in lower case"},
		{`a !in [1]`, codeSyntax, "!", "", "not in"},
		{`a nin [1]`, codeSyntax, "nin", "", "not in"},
		{`a is not None`, codeSyntax, "is", "", "x != nil"},
		{`a == 1 if b else c`, codeSyntax, "if", "", "a : b"},
		{`if(a == 1, b, c)`, codeSyntax, ",", "", "condition ? a : b"},
		{`case when a then b end`, codeSyntax, "when", "", "condition ? a : b"},
		{`a == "x" or "y"`, codeType, `"y"`, "", "x in ["},
		{`a == "x" or == "y"`, codeSyntax, "==", "", "x in ["},
		{`count() > 5`, codeSyntax, ")", "at least 2 arguments", "times of a step"},
		{`count(*) > 5`, codeSyntax, "*", "", "times of a step"},
		{`n > 5 by user`, codeSyntax, "by", "", `"by" of the rule`},
		{`any of them`, codeSyntax, "of", "", "write the conditions out"},
		{`process where a == 1`, codeSyntax, "where", "", "the condition alone"},
		{`a == 1 | stats`, codeSyntax, "", "", "pipes"},
		{`ts(e) - ts(ok) > 5m`, codeSyntax, "m", "", `duration("5m")`},
		{`ip == 10.0.0.1`, codeSyntax, ".0.1", "", "an address is a text"},
		{`a.0 == 5`, codeSyntax, ".0", "", "x[0]"},
		{`name matches /b/`, codeSyntax, "/", "", "a regular expression is a text"},
		{`@timestamp > 5`, codeSyntax, "@", "", `e["@timestamp"]`},
		{`"a\p" == a`, codeSyntax, "p", "a backslash", `\\ for a backslash`},
		{`path matches "\d+"`, codeSyntax, "d", "a backslash", `\\ for a backslash`},
		{`user == ${user}`, codeSyntax, "{", "", "$key.user"},
		{"a == “x”", codeSyntax, "“", "", "straight quotes"},
		{"a ≥ 5", codeSyntax, "≥", "", "write >="},
		{`a == 1 -- comment`, codeRefused, "-", "", "#"},
		{`name.contains("b")`, codeRefused, "contains", "", `x contains "y"`},
		{`re.match("b", name)`, codeRefused, "match", "", "matches"},
		{`isNotNull(a)`, codeFunction, "isNotNull", "", "x != nil"},
		{`count_distinct(user) > 3`, codeFunction, "count_distinct", "", "distinct: field"},
		{`PREV(price) < price`, codeFunction, "PREV", "", "prev.field"},
		{`substring(name, 0, 3) == "abc"`, codeFunction, "substring", "", "x[0:3]"},
		{`weekday(e) == "Sat"`, codeType, "", "", "6 for Saturday"},
		{`concat(a, b) == "ab"`, codeType, "", "", "a + b joins strings"},
		{`user-agent == "curl"`, codeType, `user-agent == "curl"`, "", `e["user-agent"]`},
		{`http.status-code == "500"`, codeType, "", "", `e["http.status-code"]`},
		// A step where a value must stand: the name is that of a step, and there is a field of this name too.
		{`ok == "root"`, codeType, "ok", "ok is the step", "ok.field, or e.ok for the field"},
		{`"root" != ok`, codeType, "ok", "ok is the step", "e.ok"},
		{`ok == user`, codeType, "ok", "ok is the step", "e.ok"},
		{`ok > 5`, codeType, "ok", "ok is the step", "e.ok"},
		{`ok in ["a"]`, codeType, "ok", "ok is the step", "e.ok"},
		{`ok in $scanners`, codeType, "ok", "ok is the step", "e.ok"},
		{`user in ok`, codeType, "ok", "ok is the step", "e.ok"},
		{`ok startsWith "a"`, codeType, "ok", "ok is the step", "e.ok"},
		{`lower(ok) == "a"`, codeType, "ok", "ok is the step", "e.ok"},
		{`like(ok, "a*")`, codeType, "ok", "ok is the step", "e.ok"},
		{`cidr(ok, "10.0.0.0/8")`, codeType, "ok", "ok is the step", "e.ok"},
		{`ok + 1 > 2`, codeType, "ok", "ok is the step", "e.ok"},
		{`fail == "root"`, codeListAsEvent, "", "", "e.fail is the field"},
		{`fail in ["a"]`, codeListAsEvent, "", "", "e.fail is the field"},
		{`fail startsWith "a"`, codeListAsEvent, "fail", "", "e.fail is the field"},
		{`lower(fail) == "a"`, codeListAsEvent, "fail", "", "e.fail is the field"},
		{`own == "root"`, codeType, "own", "own is the step itself", "own.field, or e.own"},
		{`own in ["root"]`, codeType, "own", "own is the step itself", "e.own"},
		{`len(own) > 2`, codeEventAsList, "own", "own is the one event under test", "taken is the list"},
		{`e == "root"`, codeType, "e", "the whole event", "e.field"},
		{`fail[-1] == "root"`, codeType, "", "", "fail[-1].field"},
		{`ok == prev`, "", "", "", ""},
		{`"name" in ok`, "", "", "", ""},
		{`x in $ok`, codeConstant, "", "", "a step has no $: write ok"},
		// Lists of events.
		{`count(fail) > 2`, codeType, "fail", "count of a list alone", "len(fail)"},
		{`max(fail, amount) > 2`, codeListAsEvent, "fail", "", "max(fail, .amount)"},
		{`mean(fail, a.b) > 2`, codeListAsEvent, "fail", "", "mean(fail, .a.b)"},
		{`avg(fail, amount) > 2`, codeFunction, "avg", "", "mean(list, .field)"},
		// Words of the language where a name should stand.
		{`in.user == user`, codeSyntax, "in", `"in"`, "no step can have this name, and a field that has it is e.in"},
		{`a == 1 and and.user == user`, codeSyntax, "and", `"and"`, "e.and"},
		{`user == or[0].user`, codeSyntax, "or", `"or"`, "e.or"},
		{`contains == 1`, codeSyntax, "contains", "", "e.contains"},
		{`len(in) > 1`, codeSyntax, "in", "", "e.in"},
		{`not.user == user`, codeSyntax, "not", `"not"`, "e.not"},
		{`any(not, .a)`, codeSyntax, "not", `"not"`, "e.not"},
		{`let == 1`, codeSyntax, "let", `"let"`, "e.let"},
		{`a == 1 and else.x == 1`, codeSyntax, "else", "", "e.else"},
		{`true.user == user`, codeSyntax, "true", `"true"`, "e.true"},
		{`a == 1 and and b`, codeSyntax, "and", "", "an operand is missing before it"},
		{`or a == 1`, codeSyntax, "or", "", "an operand is missing before it"},
		{`in [1, 2]`, codeSyntax, "in", "", "an operand is missing before it"},
		{`not .x`, codeSyntax, ".", "", "any, all"},
		{`{in: 1} == e`, codeSyntax, "in", `not "in"`, `"in"`},
		{`e.in == 1 and e.not == 2 and any(tags, .or == 1)`, "", "", "", ""},
		{`between.user == user`, "", "", "", ""},
		// Names.
		{`lowr(user) == "x"`, codeFunction, "lowr", `"lowr"`, "lower"},
		{`size(user) > 1`, codeFunction, "size", "", "len(x)"},
		{`zzz(user)`, codeFunction, "zzz", "", ""},
		{`ip in $scaners`, codeConstant, "$scaners", "$scaners", "$scanners"},
		{`$key == 1`, codeConstant, "$key", "", "$key.user"},
		{`$key.usr == 1`, codeConstant, "$key.usr", "usr", "user"},
		{`$user == 1`, codeConstant, "$user", "", "$key.user"},
		{`later.x == 1`, codeLater, "later", "later", "e.later"},
		{`null == user`, codeName, "null", "", "nil"},
		{`user == None`, codeName, "None", "", "nil"},
		{`any(tags, #foo == 1)`, codeName, "#foo", "", ""},
		{`any(tags, #acc == 1)`, codePlace, "#acc", "reduce", ""},
		// Lists and events.
		{`fail.user == user`, codeListAsEvent, "fail.user", "list", "fail[-1].user"},
		{`len(ok) > 1`, codeEventAsList, "ok", "one event", "!= nil"},
		{`ok[0].user == 1`, codeEventAsList, "ok[0]", "", "ok.field"},
		{`len(e) > 1`, codeEventAsList, "e", "", ""},
		{`any(ok, .x == 1)`, codeEventAsList, "ok", "", ""},
		{`fail > 3`, codeListAsEvent, "fail > 3", "", "len(fail) > 3"},
		{`5 <= fail`, codeListAsEvent, "5 <= fail", "", "len(fail)"},
		{`sum(fail) > 3`, codeListAsEvent, "fail", "", "sum(fail, .field)"},
		{`fail == nil`, codeListAsEvent, "fail == nil", "", "len(fail) == 0"},
		{`user in fail`, codeListAsEvent, "fail", "", "map(fail, .field)"},
		{`lower(fail) == "x"`, codeListAsEvent, "fail", "", ""},
		{`ts(fail) > ts(e)`, codeListAsEvent, "fail", "", "fail[-1]"},
		{`fail and a == 1`, codeType, "fail", "", "len(fail) > 0"},
		{`ok or a == 1`, codeType, "ok", "", "ok != nil"},
		{`first(ok).x == 1`, codeEventAsList, "ok", "", ""},
		{`fail + 1 > 2`, codeListAsEvent, "fail", "", "sum(fail"},
		// Arguments and types.
		{`hours() > 2`, codeArguments, "hours", "1 argument", "hours(d)"},
		{`cidr(ip) `, codeArguments, "", "2 arguments", ""},
		{`geo_km(1, 2, 3, 4, 5) > 1`, codeArguments, "", "2 to 4", ""},
		{`hours("a") > 2`, codeType, `"a"`, "duration", "duration("},
		{`hours(ts(e)) > 2`, codeType, "ts(e)", "", "ts(b) - ts(a)"},
		{`"a" < 1`, codeType, `"a" < 1`, "order", ""},
		{`1 == "1"`, codeType, `1 == "1"`, "never equals", "quotes"},
		{`duration > 60`, codeType, "duration > 60", "", "seconds(duration)"},
		{`ts(e) > "2026-01-01"`, codeType, "", "", "ts("},
		{`duration < "5m"`, codeType, "", "", `duration("5m")`},
		{`lower(5) == "x"`, codeType, "5", "", "string"},
		{`5`, codeType, "5", "true or false", ""},
		{`"x"`, codeType, `"x"`, "", ""},
		{`a and 5`, codeType, "5", "", ""},
		{`nil`, codeType, "nil", "", ""},
		{`nil + 1 > 2`, codeType, "", "nil", "??"},
		{`ts(e) + 5 > ts(e)`, codeType, "+", "", "duration("},
		{`ts(e) + ts(e) > ts(e)`, codeType, "+", "", ""},
		{`"a" - "b" == 1`, codeType, "-", "", ""},
		{`"a" in "abc"`, codeType, "", "", "contains"},
		{`1 in 5`, codeType, "5", "list", ""},
		{`5 contains "5"`, codeType, "5", "", "string(x)"},
		{`[1] contains 1`, codeType, "[1]", "", "x in list"},
		{`not type == "x"`, codeType, "", "binds", "not (type == "},
		{`(not a) == b`, "", "", "", ""},
		{`(not a == b)`, codeType, "", "", "not (a == b)"},
		{`not a in [1]`, codeType, "", "", "not ("},
		{`$scanners == 1`, codeType, "$scanners", "", "in"},
		{`$hosts == 1`, codeType, "$hosts", "", "lookup"},
		{`any($scanners, # == 1)`, codeType, "$scanners", "", "in $scanners"},
		{`lookup(hosts, ip) == 1`, codeType, "hosts", "", "lookup($hosts, x)"},
		{`cidr(ip, user)`, codeType, "user", "constant", ""},
		{`hour(e, tz) == 1`, codeType, "tz", "constant", ""},
		{`any(5, # == 1)`, codeType, "5", "list", ""},
		{`sum(tags, "x") > 1`, codeType, "", "numbers", ""},
		{`sortBy(tags, #, 1)[0] == 1`, codeType, "1", "asc", ""},
		{`{"a": 1} < 2`, codeType, "", "order", ""},
		{`-"x" == 1`, codeType, "", "sign", ""},
		{`ip in $hosts`, codeType, "$hosts", "map", "lookup"},
		{`ts([1]) == ts(e)`, codeType, "[1]", "time", ""},
		// Refused.
		{`now() > ts(e)`, codeClock, "now", "clock", "ts(e)"},
		{`hour(now()) == 1`, codeClock, "now", "", ""},
		{`timezone("UTC") == 1`, codeRefused, "", "", ""},
		{`user.lower() == "x"`, codeRefused, "lower", "methods", "lower(x)"},
		{`user.contains("x")`, codeRefused, "contains", "", `contains "y"`},
		{`b"x" == 1`, codeRefused, "", "", ""},
		{`{(a): 1} == 1`, codeRefused, "", "", ""},
		{`any(tags, any(#, any(#, # == 1)))`, codeNesting, "any", "2 deep", ""},
		{`port in 0..65535`, codeRange, "0..65535", "1000", "0 <= x"},
		{`any(1..1001, # == a)`, codeRange, "1..1001", "", ""},
		{strings.Repeat("a + ", 5000) + "a > 1", codeSize, "", "16,384 bytes", ""},
		{strings.Repeat("(", 200) + "a" + strings.Repeat(")", 200), "", "", "", ""},
		{strings.Repeat("!", 200) + "a", codeSize, "", "100 levels", ""},
		{strings.Repeat("a or ", 200) + "a", "", "", "", ""},
		{strings.Repeat("a + ", 200) + "a > 1", codeSize, "", "100 levels", ""},
		// Constants.
		{`user matches "("`, codeLiteral, `"("`, "regular expression", "RE2"},
		{`cidr(ip, "10.0.0.0/99")`, codeLiteral, "", "network", ""},
		{`ts(e) - ts(ok) > duration("5 min")`, codeLiteral, `"5 min"`, "5 min", "90s"},
		{`hour(e, "Mars/Base") == 1`, codeLiteral, `"Mars/Base"`, "Mars", ""},
		{`hour(e, "Local") == 1`, codeLiteral, "", "machine", ""},
		{`9223372036854775807 + 1 > a`, codeEvaluation, "", "64 bits", ""},
		{`5 % 0 == a`, codeEvaluation, "", "remainder", ""},
		{`int("x") == a`, codeEvaluation, "", "whole number", ""},
		{`ts("yesterday") < ts(e)`, codeEvaluation, "", "yesterday", ""},
		{`repeat("x", 99999999) == a`, codeEvaluation, "", "longer", ""},
		// Macros.
		{`$loop`, codeMacro, "$loop", "uses itself", ""},
		{`$broken`, codeSyntax, "", "ends too early", ""},
		{`flag and $wrong`, codeFunction, "lowr", "lowr", "lower"},
		{`$login == 5`, codeType, "$login == 5", "never equals", ""},
		{`flag and $login + 1 > 2`, codeType, "+", "", ""},
		{`hours($limit) > 1`, codeType, "$limit", "duration", ""},
		{`$negated == flag`, "", "", "", ""},
	} {
		w := newWorld()
		w.place.Condition = true
		x, problems := Compile(c.text, w.place)
		if c.code == "" {
			if x == nil {
				t.Errorf("%s: %+v", c.text, problems)
			}
			continue
		}
		i := slices.IndexFunc(problems, func(p Problem) bool { return p.Code == c.code })
		if i < 0 || x != nil {
			t.Errorf("%.80s: %+v, want %s", c.text, problems, c.code)
			continue
		}
		p := problems[i]
		text := []rune(c.text)
		if p.Macro != "" {
			text = []rune(w.place.Macros[p.Macro])
		}
		if p.Offset < 0 || p.Length < 1 || p.Offset > len(text) {
			t.Errorf("%s: place %d+%d", c.text, p.Offset, p.Length)
			continue
		}
		at := string(text[p.Offset:min(p.Offset+p.Length, len(text))])
		if c.at != "" && !strings.HasPrefix(at, c.at) {
			t.Errorf("%s: points at %q, want %q", c.text, at, c.at)
		}
		if !strings.Contains(p.Message, c.message) {
			t.Errorf("%s: message %q, want %q", c.text, p.Message, c.message)
		}
		if !strings.Contains(p.Hint, c.hint) {
			t.Errorf("%s: hint %q, want %q", c.text, p.Hint, c.hint)
		}
	}
}

// TestAllProblems: one compilation reports every mistake, in the order of the text.
func TestAllProblems(t *testing.T) {
	w := newWorld()
	_, problems := Compile(`lowr(user) == "x" and fail.user == later.x and $wrong and port in 0..9999`, w.place)
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%s%s@%d", p.Macro, p.Code, p.Offset))
	}
	want := "CEP0202@0 CEP0206@22 CEP0204@35 CEP0212@66 wrongCEP0202@11"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
}

// TestPlaces: what a name means depends on where the expression stands.
func TestPlaces(t *testing.T) {
	compile := func(text string, change func(*Place)) []Problem {
		w := newWorld()
		change(w.place)
		_, problems := Compile(text, w.place)
		return problems
	}
	alert := func(p *Place) {
		*p = Place{Schema: p.Schema, Match: true, Steps: p.Steps, Key: p.Key, Lists: p.Lists, Fields: []string{"fails", "user"}}
	}
	having := func(p *Place) {
		*p = Place{Schema: p.Schema, Condition: true, Having: true, Steps: append(p.Steps, Step{"own", 3, true}), Key: p.Key, Aggregates: p.Aggregates}
	}
	seen := func(p *Place) { *p = Place{Schema: p.Schema, Event: true, Hidden: []string{"fail", "ok", "own"}} }
	where := func(p *Place) { *p = Place{Schema: p.Schema, Event: true, Macros: p.Macros} }
	for _, c := range []struct {
		place      func(*Place)
		text, code string
		hint       string
	}{
		{alert, `ok.user`, "", ""},
		{alert, `len(fail)`, "", ""},
		{alert, `fails + 1`, "", ""},
		{alert, `$key.user + user`, "", ""},
		{alert, `src_ip`, codePlace, "opt.src_ip"},
		{alert, `fials`, codeName, "fails"},
		{alert, `e.user`, codePlace, "opt.field"},
		{alert, `prev.user`, codePlace, ""},
		{alert, `taken`, codePlace, ""},
		{where, `prev.user == user`, codePlace, "e.prev"},
		{where, `len(taken) > 1`, codePlace, "e.taken"},
		{where, `duration > 5`, codePlace, "e.duration"},
		{where, `e.duration > 5`, "", ""},
		{where, `fail.user == 1`, "", ""}, // no step here, so a field
		{where, `$key.user == 1`, codeConstant, ""},
		{having, `sum(own, .amount) > 10 and len(own) > ok.count and own[-1].user == $key.user`, "", ""},
		{having, `amount > 10`, codePlace, "own[-1].amount"},
		{having, `own.amount > 10`, codeListAsEvent, "own[-1].amount"},
		{having, `e.amount > 10`, codePlace, "own[-1].field"},
		{having, `taken[0].user == ok.user`, codePlace, ""},
		{seen, `fail.user`, codePlace, "e.fail"},
		{seen, `e.fail`, "", ""},
		{seen, `lower(user)`, "", ""},
	} {
		problems := compile(c.text, c.place)
		switch {
		case c.code == "" && len(problems) > 0:
			t.Errorf("%s: %+v", c.text, problems)
		case c.code != "" && (len(problems) == 0 || problems[0].Code != c.code || !strings.Contains(problems[0].Hint, c.hint)):
			t.Errorf("%s: %+v, want %s %s", c.text, problems, c.code, c.hint)
		}
	}
}

// TestWarnings: what compiles but deserves a second look.
func TestWarnings(t *testing.T) {
	for _, c := range []struct{ text, code, hint string }{
		{`user matches pattern`, codeRegexp, ""},
		{`not (size > 10)`, codeNot, "size <= 10"},
		{`not (user == "root")`, codeNot, "user != nil and"},
		{`not (ok.size >= 10) and type == "x"`, codeNot, "ok.size < 10"},
		{`size != nil and not (size > 10)`, "", ""},
		{`user != "root"`, "", ""},
		{`not (user in ["x"])`, "", ""},
		{`not flag`, "", ""},
		{`sum(fail, amount) > 5`, codeIdle, "write .amount"},
		{`sum(fail, a.b) > 5`, codeIdle, "write .a.b"},
		{`any(fail, user == "x")`, codeIdle, "# is the element"},
		{`any(fail, $login)`, codeIdle, "# is the element"},
		{`any(tags, any(nums, #index > 1 and a == 1) and # == 1)`, "", ""},
		{`any(tags, # == 1 and any(nums, a == 1))`, codeIdle, "# is the element"},
		{`sum(fail, .amount + amount) > 5`, "", ""},
		{`reduce(nums, #acc + 1, 0) > 5`, "", ""},
		{`count(tags) > 5`, codeIdle, "len(tags)"},
		{`count(map(fail, .flag)) > 5`, "", ""},
		{`"user-agent" == "x" or a == 1`, codeIdle, `e["user-agent"]`},
		{`size > "100"`, codeText, "without quotes"},
		{`"2.5" >= size`, codeText, "without quotes"},
		{`day >= "20270630"`, "", ""},
		{`day >= "0800"`, "", ""},
		{`version >= "1.2.3"`, "", ""},
		{`path startsWith "C:\temp"`, codeText, `\\t`},
		{`path startsWith "C:\\temp"`, "", ""},
		{`command matches "\bcmd"`, codeText, `\\b`},
		{`line contains "a\tb"`, "", ""},
		{`line contains "x: a\n"`, "", ""},
	} {
		x, problems := Compile(c.text, newWorld().place)
		if x == nil {
			t.Errorf("%s: %+v", c.text, problems)
			continue
		}
		switch {
		case c.code == "" && len(problems) > 0:
			t.Errorf("%s: %+v", c.text, problems)
		case c.code != "" && (len(problems) != 1 || problems[0].Code != c.code || !problems[0].Warning || !strings.Contains(problems[0].Hint, c.hint)):
			t.Errorf("%s: %+v, want %s %s", c.text, problems, c.code, c.hint)
		}
	}
}

// TestCodes: every code is listed once, and its example earns it.
func TestCodes(t *testing.T) {
	last := ""
	for _, c := range Codes() {
		if c.Code <= last {
			t.Errorf("%s stands behind %s", c.Code, last)
		}
		last = c.Code
		w := newWorld()
		text := c.Example
		switch c.Code {
		case codeSize:
			text = strings.Repeat("!", 200) + "a"
		case codePlace:
			w.place.Taken = false
		case codeName:
			w.place.Event = false
			w.place.Fields = []string{"user"}
		}
		_, problems := Compile(text, w.place)
		if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Code == c.Code && p.Warning == c.Warning }) {
			t.Errorf("%s: %s earns %+v", c.Code, text, problems)
		}
	}
}

// TestBombs: what is made to cost much is refused or ends quickly with an error.
func TestBombs(t *testing.T) {
	w := populated()
	nested := "a"
	for range 12 {
		nested = "(" + nested + " < " + nested + " < " + nested + ")"
	}
	chain := "a"
	for range 40 {
		chain = "x < (" + chain + ") < 4"
	}
	for _, text := range []string{
		strings.Repeat("(", 16000), strings.Repeat("[", 16000), strings.Repeat("{", 16000), strings.Repeat("a?", 8000), strings.Repeat("-", 16000) + "1",
		strings.Repeat("any(a,", 2700), nested, chain, strings.Repeat("if a {", 2700), strings.Repeat("let a = ", 2000) + "1", strings.Repeat("a.", 8000) + "a",
		`len(reduce(1..1000, #acc + #acc, "x")) > 1`, `len(reduce(1..1000, concat(#acc, #acc), [1])) > 1`, `len(reduce(1..1000, replace(#acc, "x", "xx"), "x")) > 1`,
		`sum(map(1..1000, sum(map(1..1000, #)))) > a`, `len(reduce(1..1000, join([#acc, #acc]), "x")) > 1`, `len(reduce(1..1000, repeat(#acc, 2), "x")) > 1`,
		`path matches "(a+)+$" or path matches "((a*)*)*b"`, `a matches "(((x{500}){500}){500})"`, `like(repeat("a", 1000), "*a*a*a*a*a*a*a*b")`,
		`len(reduce(1..1000, [#acc, #acc], 1)) > 5`, `reduce(1..1000, {"a": #acc, "b": #acc}, 1) == 5`, strings.Repeat("let a = [a, a, a]; ", 90) + "toJSON(a) == b",
		strings.Repeat("let a = concat([a], [a], [a]); ", 90) + "a == b", `toJSON(reduce(1..60, map([#acc, #acc], #), 1)) == "x"`, `reduce(1..40, [#acc, #acc], 1) == reduce(1..40, [#acc, #acc], 1)`, `reduce(1..1000, toJSON([#acc, #acc]), "x") == "x"`,
	} {
		start := time.Now() // a bomb that goes off takes hours: what fails is that, not a slow machine
		if x, _ := Compile(text, w.place); x != nil {
			_, _ = x.Test(w.set())
		}
		if d := time.Since(start); d > time.Minute {
			t.Errorf("%.60s: took %v", text, d)
		}
	}
}
