package expression

import (
	"unicode"
	"unicode/utf8"
)

// like reports whether s fits a pattern with wildcards: * for any text, ? for one character, upper and lower case alike.
// There is no way to escape one: paths such as C:\Windows\* are what patterns are written for. It allocates nothing and
// goes back to the last * only, so it costs at most the product of the lengths.
func like(s, pattern string) bool {
	i, p := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, i
			p++
			continue
		}
		if p < len(pattern) {
			want, width := utf8.DecodeRuneInString(pattern[p:])
			got, step := utf8.DecodeRuneInString(s[i:])
			if want == '?' || foldEqual(want, got) {
				p += width
				i += step
				continue
			}
		}
		if star < 0 {
			return false
		}
		_, w := utf8.DecodeRuneInString(s[mark:])
		mark += w
		p, i = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// foldEqual compares two characters without regard to case.
func foldEqual(a, b rune) bool {
	if a == b {
		return true
	}
	if a < utf8.RuneSelf && b < utf8.RuneSelf {
		return lowerASCII(a) == lowerASCII(b)
	}
	for r := unicode.SimpleFold(a); r != a; r = unicode.SimpleFold(r) {
		if r == b {
			return true
		}
	}
	return false
}

func lowerASCII(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}
