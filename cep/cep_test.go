package cep

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// scalars draws any value that can be part of a key, and the ones that nearly can.
func scalars() *rapid.Generator[Value] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64(), Int),
		rapid.Map(rapid.Int64Range(-3, 3), Int),
		rapid.Map(rapid.Float64(), Float),
		rapid.Map(rapid.Int64Range(-3, 3), func(i int64) Value { return Float(float64(i)) }),
		rapid.Map(rapid.String(), String),
		rapid.Map(rapid.Bool(), Bool),
		rapid.Map(rapid.Int64(), func(i int64) Value { return TimeValue(Time(i)) }),
		rapid.Map(rapid.Int64(), func(i int64) Value { return DurationValue(Duration(i)) }),
		rapid.Just(Null),
		rapid.Just(Value{}),
		rapid.Just(List([]Value{Int(1)})),
	)
}

func TestKeyPartsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(scalars(), 0, 4).Draw(t, "parts")
		k, ok := KeyOf(parts...)
		want := true
		for _, p := range parts {
			want = want && !p.IsMissing() && p.Kind() != KindList && (p.Kind() != KindString || p.AsString() != "") && Equal(p, p)
		}
		if ok != want {
			t.Fatalf("KeyOf(%v): ok %v, want %v", parts, ok, want)
		}
		if !ok {
			return
		}
		got, err := k.Parts()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, parts, Equal) {
			t.Fatalf("parts %v came back as %v", parts, got)
		}
	})
}

// Keys are equal exactly where all their values are.
func TestKeyEquality(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := scalars().Draw(t, "a"), scalars().Draw(t, "b")
		x, okA := KeyOf(a)
		y, okB := KeyOf(b)
		if okA && okB && (x == y) != Equal(a, b) {
			t.Fatalf("%v and %v: keys equal %v, values equal %v", a, b, x == y, Equal(a, b))
		}
	})
}

func TestKeyOfNumbers(t *testing.T) {
	one, _ := KeyOf(Int(1))
	for v, equal := range map[Value]bool{Float(1): true, String("1"): false, Float(1.5): false, Bool(true): false} {
		if k, ok := KeyOf(v); !ok || (k == one) != equal {
			t.Errorf("key of %v equals that of 1: %v", v, k == one)
		}
	}
	if k, ok := KeyOf(Float(math.Inf(1))); !ok || len(k) == 0 {
		t.Error("an infinity is a key part")
	}
}

func FuzzKeyParts(f *testing.F) {
	k, _ := KeyOf(Int(1), String("root"), Float(2.5), Bool(true), TimeValue(3), DurationValue(4))
	f.Add([]byte(k))
	f.Add([]byte("s\x05ab"))
	f.Fuzz(func(t *testing.T, b []byte) {
		parts, err := Key(b).Parts()
		if err != nil {
			return
		}
		// What decodes may be written in a longer way than ours (a padded varint, a float that is an int), but its values
		// make one key.
		again, ok := KeyOf(parts...)
		if !ok {
			return
		}
		p2, err := again.Parts()
		if err != nil || !slices.EqualFunc(parts, p2, Equal) {
			t.Fatalf("%q: %v, then %v (%v)", b, parts, p2, err)
		}
	})
}

// Compare of an int and a float is that of the exact numbers.
func TestCompareIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.OneOf(rapid.Int64(), rapid.Int64Range(1<<53-2, 1<<53+2), rapid.Just(int64(math.MaxInt64))).Draw(t, "i")
		f := rapid.OneOf(rapid.Float64(), rapid.Just(float64(i)), rapid.Just(math.Nextafter(float64(i), 0))).Draw(t, "f")
		got, ok := Compare(Int(i), Float(f))
		if f != f {
			if ok {
				t.Fatal("NaN compares")
			}
			return
		}
		want := 0
		if math.IsInf(f, 0) {
			want = -1
			if f < 0 {
				want = 1
			}
		} else {
			want = new(big.Float).SetInt64(i).Cmp(new(big.Float).SetFloat64(f))
		}
		back, _ := Compare(Float(f), Int(i))
		if !ok || got != want || back != -want {
			t.Fatalf("Compare(%d, %v) = %d and back %d, want %d", i, f, got, back, want)
		}
	})
}

func TestTimeStaysInRange(t *testing.T) {
	for _, c := range []struct {
		t    Time
		d    Duration
		want Time
	}{
		{Second, 2e9, 3 * Second},
		{AfterAll - 1, 5, AfterAll},
		{BeforeAll + 1, -5, BeforeAll},
		{BeforeAll, math.MaxInt64, -1},
	} {
		if got := c.t.Add(c.d); got != c.want {
			t.Errorf("%d + %d = %d, want %d", c.t, c.d, got, c.want)
		}
	}
	if d := AfterAll.Sub(BeforeAll); d != math.MaxInt64 {
		t.Errorf("the longest span is %d", d)
	}
	if d := BeforeAll.Sub(AfterAll); d != math.MinInt64 {
		t.Errorf("the longest span back is %d", d)
	}
}

func TestSchema(t *testing.T) {
	s := NewSchema()
	nested, flat, whole := s.Slot("user", "name"), s.Slot("user.name"), s.Slot()
	if nested == flat || whole == nested || s.Slot("user", "name") != nested || s.Slot() != whole || s.Len() != 3 {
		t.Errorf("slots %d, %d, %d of %d", nested, flat, whole, s.Len())
	}
	if s.Name(nested) != "user.name" || len(s.Path(whole)) != 0 {
		t.Errorf("names %q, %q", s.Name(nested), s.Path(whole))
	}
}

func TestMomentOrder(t *testing.T) {
	l := []Moment{{1, 1}, {1, 2}, {1, ByTime}, {2, 1}}
	for i := range l {
		for j := range l {
			if got := l[i].Compare(l[j]); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%v against %v: %d", l[i], l[j], got)
			}
		}
	}
	if !l[2].Timed() || l[1].Timed() {
		t.Error("Timed")
	}
}
