package codec

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/cepd/cepd/cep"
)

// csvDecoder decodes rows of delimited cells, by RFC 4180: a cell in quotes may hold the delimiter, line ends and doubled
// quotes. Columns are names at the top of the event: a column user.name is the flat spelling of that field.
type csvDecoder struct {
	builder
	columns []string
	nodes   []*node // by column; nil: nobody wants it
	comma   byte
	maxSize int
	raw     bool
	several bool
	cells   []cell
	scratch []byte // cells that had doubled quotes
	text    []byte // ev.Raw
}

// cell is one cell of a row. value is missing for an empty one, text its text.
type cell struct {
	value cep.Value
	text  []byte
}

// NewCSV returns a decoder of delimited rows with these columns. The schema must not grow any more.
func NewCSV(columns []string, comma byte, schema *cep.Schema, t TimeSpec, o Options) Decoder {
	d := &csvDecoder{
		columns: columns, nodes: make([]*node, len(columns)), comma: comma, maxSize: o.MaxSize, raw: o.Raw, several: o.Several,
		cells: make([]cell, len(columns)),
	}
	if d.maxSize == 0 {
		d.maxSize = MaxSize
	}
	d.builder = newBuilder(newPlan(schema, t, false, false))
	for i, name := range columns {
		d.nodes[i] = d.plan.root.children[name]
	}
	return d
}

// Decode implements [Decoder].
func (d *csvDecoder) Decode(data []byte, ev *cep.Event) error {
	switch {
	case len(data) > d.maxSize:
		return &Error{TooLarge, -1, fmt.Sprintf("%d bytes, the limit is %d", len(data), d.maxSize)}
	case !utf8.Valid(data):
		return &Error{BadUTF8, -1, ""}
	}
	d.begin(ev)
	if d.scratch, d.text = d.scratch[:0], d.text[:0]; d.several {
		d.scratch, d.text = nil, nil
	}
	all := d.raw || len(d.plan.whole) > 0
	i := 0
	for column := 0; ; column++ {
		text, end, err := d.cut(data, i)
		if err != nil {
			return err
		}
		if column == len(d.columns) {
			return &Error{BadCSV, i, fmt.Sprintf("more than %d fields", len(d.columns))}
		}
		if n := d.nodes[column]; n != nil || all {
			c := cell{d.cellValue(text), text}
			d.cells[column] = c
			if n != nil {
				d.set(n.targets, c.value, c.text)
			}
		}
		if end == len(data) {
			if column+1 < len(d.columns) {
				return &Error{BadCSV, end, fmt.Sprintf("%d fields, the header has %d", column+1, len(d.columns))}
			}
			break
		}
		i = end + 1
	}
	if len(d.plan.whole) > 0 {
		v := d.object()
		for _, i := range d.plan.whole {
			d.values[i] = v
		}
	}
	if d.raw {
		ev.Raw = d.rawText()
	}
	return d.finish(ev)
}

// cut returns the text of the cell that begins at i and the place of the delimiter behind it, or the end of the row.
func (d *csvDecoder) cut(data []byte, i int) (text []byte, end int, err error) {
	rest := data[i:]
	if len(rest) == 0 || rest[0] != '"' {
		n := bytes.IndexByte(rest, d.comma)
		if n < 0 {
			n = len(rest)
		}
		return rest[:n], i + n, nil
	}
	start, doubled := i+1, false
	for at := start; ; at += 2 {
		n := bytes.IndexByte(data[at:], '"')
		if n < 0 {
			return nil, 0, &Error{BadCSV, i, "a quote is not closed"}
		}
		at += n
		if at+1 < len(data) && data[at+1] == '"' {
			doubled = true
			continue
		}
		if at+1 < len(data) && data[at+1] != d.comma {
			return nil, 0, &Error{BadCSV, at + 1, "text behind a closing quote"}
		}
		text = data[start:at]
		if doubled {
			from := len(d.scratch)
			for {
				j := bytes.IndexByte(text, '"')
				if j < 0 {
					break
				}
				d.scratch = append(d.scratch, text[:j+1]...)
				text = text[j+2:]
			}
			d.scratch = append(d.scratch, text...)
			text = d.scratch[from:len(d.scratch):len(d.scratch)]
		}
		return text, at + 1, nil
	}
}

func (d *csvDecoder) cellValue(text []byte) cep.Value {
	if len(text) == 0 {
		return cep.Value{}
	}
	switch c := text[0]; {
	case c == '-' || c-'0' < 10:
		if end, integer := scanNumber(text, 0); end == len(text) {
			return d.number(text, integer)
		}
	case c == 't' && string(text) == "true":
		return cep.Bool(true)
	case c == 'f' && string(text) == "false":
		return cep.Bool(false)
	}
	return cep.String(lend(text))
}

// object is the row as one value. Of two columns of one name the last one counts.
func (d *csvDecoder) object() cep.Value {
	var o []cep.Member
	var places map[string]int
	for i, c := range d.cells {
		if c.value.Kind() != cep.KindMissing {
			o, places = addMember(o, places, cep.Member{Name: d.columns[i], Value: c.value})
		}
	}
	return cep.Object(o)
}

func (d *csvDecoder) rawText() []byte {
	b := append(d.text, '{')
	for i, c := range d.cells {
		if c.value.Kind() == cep.KindMissing {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(cep.AppendJSONString(b, d.columns[i]), ':')
		if c.value.IsNumber() {
			b = append(b, c.text...) // as it was written, digits and all
		} else {
			b = cep.AppendJSON(b, c.value)
		}
	}
	d.text = append(b, '}')
	return d.text
}
