package rulesapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// depthMax bounds the nesting of a body of JSON, as that of a rule file is bounded: the deepest rule has some 15 levels.
const depthMax = 64

// plain is text that means itself in YAML without quotes, at the beginning of a line and in braces.
var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// notPlain are words that are something else than text without quotes, for one reader or another.
var notPlain = map[string]bool{
	"true": true, "false": true, "null": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true,
}

// yamlOf writes JSON as a person would write YAML: the file is one that people go on with. Members stay in their order.
func yamlOf(data []byte) ([]byte, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the body is no UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	w := yamlWriter{from: d}
	first, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("the body is no JSON: %w", err)
	}
	if first != json.Delim('{') {
		return nil, errors.New("the body is no JSON object")
	}
	if err := w.object(0, false); err != nil {
		return nil, fmt.Errorf("the body is no JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the JSON of the body")
	}
	return w.out.Bytes(), nil
}

// yamlWriter writes block style from tokens.
type yamlWriter struct {
	from *json.Decoder
	out  bytes.Buffer
}

// object writes the members up to the end of the object. inList says that the first one stands behind the mark of a list.
func (w *yamlWriter) object(depth int, inList bool) error {
	for i := 0; w.from.More(); i++ {
		t, err := w.from.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string) // a name, as the decoder has seen to it
		if i > 0 || !inList {
			w.indent(depth)
		}
		w.out.WriteString(scalar(name) + ":")
		if err := w.value(depth, false); err != nil {
			return err
		}
	}
	_, err := w.from.Token()
	return err
}

// value writes what stands behind a name or the mark of a list.
func (w *yamlWriter) value(depth int, inList bool) error {
	if depth >= depthMax {
		return fmt.Errorf("nested deeper than %d", depthMax)
	}
	t, err := w.from.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('{'):
		if !w.from.More() {
			w.out.WriteString(" {}\n")
			_, err := w.from.Token()
			return err
		}
		w.out.WriteString(map[bool]string{true: " ", false: "\n"}[inList])
		return w.object(depth+1, inList)
	case json.Delim('['):
		if !w.from.More() {
			w.out.WriteString(" []\n")
			_, err := w.from.Token()
			return err
		}
		w.out.WriteString("\n")
		for w.from.More() {
			w.indent(depth + 1)
			w.out.WriteString("-")
			if err := w.value(depth+1, true); err != nil {
				return err
			}
		}
		_, err := w.from.Token()
		return err
	}
	w.out.WriteString(" ")
	switch v := t.(type) {
	case string:
		w.out.WriteString(scalar(v))
	case json.Number:
		w.out.WriteString(v.String())
	case bool:
		fmt.Fprint(&w.out, v)
	default:
		w.out.WriteString("null")
	}
	w.out.WriteString("\n")
	return nil
}

func (w *yamlWriter) indent(depth int) { w.out.WriteString(strings.Repeat("  ", depth)) }

// scalar writes text so that it is read as text, in one line.
func scalar(s string) string {
	if plain.MatchString(s) && !notPlain[strings.ToLower(s)] {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
