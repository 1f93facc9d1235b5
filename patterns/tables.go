package patterns

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns/expression"
)

// maxTableRows bounds a list or map from a file: at 50 bytes an entry a table of 50 MB.
const maxTableRows = 1_000_000

// tables collects the lists, maps and macros of all documents. They are known in all files, under names that are unique.
func (c *checker) tables(documents []*document) {
	name := func(t *text) bool {
		switch first, twice := c.tableNames[t.value]; {
		case !nameShape.MatchString(t.value):
			c.mark("", t, codeName, "letters, digits and _, not beginning with a digit", "%q cannot be the name of a list, map or macro", t.value)
		case t.value == "key":
			c.mark("", t, codeName, "", "$key means the key of the rule")
		case twice:
			c.mark("", t, codeDuplicate, "", "the name %q is taken: it stands in %s", t.value, first.Pos)
		default:
			c.tableNames[t.value] = t
			return true
		}
		return false
	}
	for _, d := range documents {
		for _, t := range d.lists {
			if !name(t.name) {
				continue
			}
			l := expression.NewList(c.list(t))
			l.Reloads = t.file != nil
			c.lists[t.name.value] = l
		}
		for _, t := range d.maps {
			if !name(t.name) {
				continue
			}
			if keys, values, ok := c.pairs(t); ok {
				c.maps[t.name.value] = expression.NewMap(keys, values)
			}
		}
		for _, m := range d.macros {
			if name(m.name) {
				c.macros[m.name.value], c.macroTexts[m.name.value] = m.value.value, m.value
			}
		}
	}
}

// list returns the values of a list. A list whose file has mistakes is still known, so that its uses are no mistakes.
func (c *checker) list(t *table) (values []cep.Value) {
	name := t.name.value
	c.listValues[name] = nil
	if t.file == nil {
		for _, p := range t.pairs {
			if v, ok := c.constant(t, p.value); ok {
				values = append(values, v)
			}
		}
		c.listValues[name] = values
		return values
	}
	c.rows(t, []*text{t.value}, func(cells []string) {
		values = append(values, cellValues(cells[0])...)
		c.listValues[name] = append(c.listValues[name], cep.String(cells[0]))
	})
	return values
}

// pairs returns the keys and values of a map.
func (c *checker) pairs(t *table) (mapKeys, mapValues []cep.Value, ok bool) {
	if t.file == nil {
		for _, p := range t.pairs {
			k, okKey := c.constant(t, p.key)
			v, okValue := c.constant(t, p.value)
			if okKey && okValue {
				mapKeys, mapValues = append(mapKeys, k), append(mapValues, v)
			}
		}
		return mapKeys, mapValues, true
	}
	c.rows(t, []*text{t.key, t.value}, func(cells []string) {
		value := cellValues(cells[1])
		for _, k := range cellValues(cells[0]) {
			mapKeys, mapValues = append(mapKeys, k), append(mapValues, value[len(value)-1])
		}
	})
	return mapKeys, mapValues, true
}

// constant is the value of a scalar in a list or map.
func (c *checker) constant(t *table, n *yamlnode.Node) (cep.Value, bool) {
	at := &text{Pos: Pos{File: t.name.File, Line: n.Line, Column: n.Column}, width: t.name.file.Width(n), file: t.name.file, node: n}
	if n.Kind != yamlnode.Scalar {
		c.mark("", at, codeTableValue, "", "lists and maps hold single values, this is %s", kindOf(n))
		return cep.Value{}, false
	}
	v, ok := scalarValue(n)
	switch {
	case !ok:
		c.mark("", at, codeTableValue, "put it in quotes if it is a text", "%q is no number that JSON knows", n.Value)
		return cep.Value{}, false
	case v.IsMissing():
		c.mark("", at, codeNull, "put it in quotes if it is a text", "the value is null: no field equals it")
		return cep.Value{}, false
	}
	return v, true
}

// cellValues are what the text of a CSV cell can be in an event: the text, and the number that it spells, so that ports
// and ids are found whether the events write them with quotes or without. The number comes last.
func cellValues(cell string) []cep.Value {
	values := []cep.Value{cep.String(cell)}
	if !jsonNumber.MatchString(cell) {
		return values
	}
	if i, err := strconv.ParseInt(cell, 10, 64); err == nil {
		return append(values, cep.Int(i))
	}
	if f, err := strconv.ParseFloat(cell, 64); err == nil {
		return append(values, cep.Float(f))
	}
	return values
}

// beside is the name of a file that a rule file names: relative to that.
func beside(t *text) string {
	if path.IsAbs(t.value) {
		return t.value
	}
	return path.Join(path.Dir(t.File), t.value)
}

// rows reads the named columns of a CSV file, row by row.
func (c *checker) rows(t *table, columns []*text, row func(cells []string)) {
	fail := func(at *text, hint, format string, args ...any) {
		c.mark("", at, codeTableFile, hint, format, args...)
	}
	if c.options.ReadFile == nil {
		fail(t.file, "", "files cannot be read here")
		return
	}
	name := beside(t.file)
	data, err := c.options.ReadFile(name)
	if err != nil {
		fail(t.file, "", "%v", err)
		return
	}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		fail(t.file, "the first line names the columns", "%s has no header: %v", name, err)
		return
	}
	header = slices.Clone(header)
	at := make([]int, len(columns))
	for i, column := range columns {
		if at[i] = slices.Index(header, column.value); at[i] < 0 {
			hint := c.didYouMean(column.File, column.value, header)
			if hint == "" {
				hint = "the file has " + shorten(strings.Join(header, ", "))
			}
			fail(column, hint, "%s has no column %q", name, column.value)
			return
		}
	}
	cells := make([]string, len(columns))
	for n := 1; ; n++ {
		record, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			fail(t.file, "", "%s: %v", name, err)
			return
		case n > maxTableRows:
			fail(t.file, "", "%s has more than %d rows", name, maxTableRows)
			return
		}
		for i := range at {
			cells[i] = strings.TrimSpace(record[at[i]])
		}
		if cells[0] != "" {
			row(cells)
		}
	}
}
