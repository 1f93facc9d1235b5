package expression

import "testing"

func TestSpelled(t *testing.T) {
	for text, want := range map[string]string{
		`@timestamp > 5`:                 `e["@timestamp"] > 5`,
		`a == 1 and @m.x == "@y"`:        `a == 1 and e["@m.x"] == "@y"`,
		`path == "C:\path"`:              `path == "C:\\path"`,
		`path == "C:\temp\path"`:         `path == "C:\\temp\\path"`,
		`path == "C:\\temp\path"`:        `path == "C:\\temp\\path"`,
		`name matches '^\d+'`:            `name matches '^\\d+'`,
		`"path == \"C:\\temp\\path\""`:   `path == "C:\\temp\\path"`,
		`"name == \"x\""`:                `name == "x"`,
		`name == 'it''s'`:                `name == "it's"`,
		`x == "ü" and path == "C:\\ü\ä"`: `x == "ü" and path == "C:\\ü\\ä"`,
		`path == "C:\temp"`:              ``, // an escape that there is
		`name == "x"`:                    ``,
		`see "C:\path" and @admin`:       ``,
		`mail @admin: look`:              ``,
		`@ > 5`:                          ``,
		`name == "x`:                     ``,
		`"`:                              ``,
		`"\"`:                            ``,
		`'`:                              ``,
		`''`:                             ``,
		`name == ''`:                     ``,
	} {
		got, ok := Spelled(text)
		if ok != (want != "") || ok && got != want || !ok && got != text {
			t.Errorf("%s becomes %s, %t, want %s", text, got, ok, want)
		}
	}
}
