package codec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
)

// recordMax is how many records of each recording are looked at: enough for every kind of event in them, and few enough
// that the test takes a second or two.
const recordMax = 400

// Real events decode as encoding/json decodes them: written out again they are the same document.
func TestRecordings(t *testing.T) {
	root := os.Getenv("CEPD_DATA")
	if root == "" {
		root = "../../../shared/data"
	}
	if _, err := os.Stat(root); err != nil {
		t.Skip("recordings are not there (CEPD_DATA): ", root)
	}
	var paths []string
	for _, pattern := range []string{"otrf/*.zip", "aws-stratus/*.gz", "loghub-openssh/events.jsonl", "zeek-wrccdc/*.gz"} {
		paths = append(paths, filepath.Join(root, pattern))
	}
	readers, err := filesource.Open(filesource.Config{Stream: "s", Paths: paths, Partitions: source.NewPartitions("s")})
	if err != nil {
		t.Fatal(err)
	}
	schema := cep.NewSchema()
	whole := schema.Slot()
	for _, r := range readers {
		dec := codec.NewJSON(schema, codec.TimeSpec{}, codec.Options{})
		n := 0
		for ; n < recordMax; n++ {
			rec, err := r.Next(context.Background())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			var ev cep.Event
			if err := dec.Decode(rec.Data, &ev); err != nil {
				t.Fatalf("%s at %d: %v", r.Name(), rec.Offset, err)
			}
			if got, want := canonical(t, cep.AppendJSON(nil, ev.Value(whole))), canonical(t, rec.Data); !bytes.Equal(got, want) {
				t.Fatalf("%s at %d is\n%s, want\n%s", r.Name(), rec.Offset, got, want)
			}
		}
		if n == 0 {
			t.Errorf("%s: no records", r.Name())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(readers) < 18 {
		t.Errorf("%d recordings", len(readers))
	}
}

// canonical writes a document with its names in order and its floats in one form.
func canonical(t *testing.T, data []byte) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(numbers(x))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// numbers makes floats of all numbers that are no int64, which alone must keep their digits.
func numbers(x any) any {
	switch x := x.(type) {
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return i
		}
		f, _ := x.Float64()
		return f
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	}
	return x
}
