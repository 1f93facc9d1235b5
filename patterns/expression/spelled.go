package expression

import (
	"regexp"
	"strings"
)

// Spelled returns an expression as its author must have meant it, where a quote, a backslash or a name is written as in
// another language and nothing else is wrong; ok is false where there is no need, or more is wrong.
//
//	@timestamp > 5              e["@timestamp"] > 5
//	path == "C:\path"           path == "C:\\path"
//	"path == \"C:\\path\""      path == "C:\\path"
//	name == 'it''s'             name == "it's"
func Spelled(text string) (_ string, ok bool) {
	meant := text
	if inner, quoted := strings.CutPrefix(text, `"`); quoted && strings.Contains(text, `\"`) && strings.HasSuffix(inner, `"`) {
		meant = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(strings.TrimSuffix(inner, `"`))
	} else if _, problem := parse(text, ""); problem == nil {
		return text, false
	}
	meant = plainStrings(meant)
	if _, problem := parse(meant, ""); problem != nil {
		return text, false
	}
	return meant, meant != text
}

// escaped is a backslash and what stands behind it.
var escaped = regexp.MustCompile(`(?s)\\.?`)

// isEscape reports whether that is an escape.
func isEscape(s string) bool {
	return len(s) == 2 && strings.Contains("abfnrtvxuU01234567\\\"'", s[1:])
}

// plainStrings doubles the backslashes of strings that were not written with escapes in mind, makes one quote of two, and
// writes names with an @ as fields.
func plainStrings(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case '"', '\'':
			end := stringEnd(text, i)
			b.WriteString(plainString(text[i:end], c))
			i = end
		case '@':
			name := oddName.FindString(text[i:])
			if name == "" {
				return text
			}
			b.WriteString(`e["` + name + `"]`)
			i += len(name)
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

// stringEnd is where a string that begins at an offset ends. Two single quotes in it are one, as in SQL and YAML.
func stringEnd(text string, from int) int {
	quote := text[from]
	for i := from + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return len(text)
}

func plainString(text string, quote byte) string {
	if quote == '\'' && len(text) > 2 && strings.Contains(text[1:len(text)-1], "''") && !strings.ContainsAny(text, "\"\\") {
		return `"` + strings.ReplaceAll(text[1:len(text)-1], "''", "'") + `"`
	}
	isMeant := true // the author knows of escapes
	mended := escaped.ReplaceAllStringFunc(text, func(s string) string {
		if isEscape(s) {
			return s
		}
		isMeant = false
		return `\` + s
	})
	if isMeant || strings.Contains(text, `\\`) {
		return mended
	}
	return strings.ReplaceAll(text, `\`, `\\`)
}
