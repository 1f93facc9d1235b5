package cep

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func drawBinaryValue(t *rapid.T, depth int) Value {
	if depth > 0 {
		switch rapid.IntRange(0, 5).Draw(t, "nested") {
		case 0:
			var l []Value
			for range rapid.IntRange(0, 3).Draw(t, "items") {
				l = append(l, drawBinaryValue(t, depth-1))
			}
			return List(l)
		case 1:
			var l []Member
			for range rapid.IntRange(0, 3).Draw(t, "members") {
				l = append(l, Member{rapid.String().Draw(t, "name"), drawBinaryValue(t, depth-1)})
			}
			return Object(l)
		}
	}
	return scalars().Draw(t, "scalar")
}

// What is read is what was written, kind by kind: an int is no float, a NaN stays one, members keep their order.
func TestValueBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawBinaryValue(t, 3)
		data := AppendValue([]byte("x"), v)[1:]
		r := NewReader(data)
		w := r.Value()
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(AppendValue(nil, w), data) || v.Kind() != w.Kind() || v.String() != w.String() {
			t.Fatalf("%v came back as %v", v, w)
		}
		for i := range data {
			r := NewReader(data[:i])
			if x := r.Value(); r.End() == nil {
				t.Fatalf("%v cut off after %d bytes is %v", v, i, x)
			}
		}
	})
}

func TestReaderRefuses(t *testing.T) {
	deep := func(n int) []byte { return append(bytes.Repeat([]byte{byte(KindList), 1}, n), byte(KindNull)) }
	for _, c := range []struct {
		want string
		data []byte
	}{
		{"", deep(valueDepth)},
		{"nested deeper than 128", deep(valueDepth + 1)},
		{"unknown kind 10", []byte{byte(KindObject) + 1}},
		{"neither 0 nor 1", []byte{byte(KindBool), 2}},
		{"things in 0 bytes", []byte{byte(KindList), 0xff, 0xff, 0xff, 0xff, 0x0f}},
		{"bytes of 1", []byte{byte(KindFloat), 1}},
		{"number cut off", []byte{byte(KindInt), 0x80}},
		{"number cut off", append([]byte{byte(KindInt)}, bytes.Repeat([]byte{0xff}, 11)...)},
		{"behind the end", []byte{byte(KindNull), 0}},
	} {
		r := NewReader(c.data)
		r.Value()
		err := r.End()
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrBytes) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%x: %v, want %q", c.data, err, c.want)
		}
		if err != nil && (r.Uint() != 0 || r.Int() != 0 || r.Text() != "" || r.Flag() || r.Count(1) != 0 || r.Index(5, "x") != 0 || !r.Value().IsMissing()) {
			t.Errorf("%x: something is read behind an error", c.data)
		}
		if r.Fail("again"); err != nil && r.Err().Error() != err.Error() {
			t.Errorf("%x: %v took the place of the first error", c.data, r.Err())
		}
	}
	var b []byte
	for _, i := range []int64{0, -1, math.MaxInt64, math.MinInt64, 63, 64, -64, -65} {
		b = AppendValue(b, Int(i))
	}
	r := NewReader(b)
	for _, i := range []int64{0, -1, math.MaxInt64, math.MinInt64, 63, 64, -64, -65} {
		if got := r.Value().AsInt(); got != i {
			t.Errorf("%d came back as %d", i, got)
		}
	}
}

func FuzzReadValue(f *testing.F) {
	f.Add(AppendValue(nil, List([]Value{Int(-1), Float(math.Inf(1)), String("s"), Object([]Member{{"m", Null}})})))
	f.Add([]byte{byte(KindList), 2, byte(KindTime), 3, byte(KindDuration), 0x80, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(data)
		v := r.Value()
		if r.End() != nil {
			return
		}
		again := AppendValue(nil, v) // numbers may have been written in a longer way
		if len(again) > len(data) {
			t.Fatalf("%x of %x", again, data)
		}
		s := NewReader(again)
		if w := s.Value(); s.End() != nil || !bytes.Equal(AppendValue(nil, w), again) {
			t.Fatalf("%x is no fixed point", again)
		}
	})
}
