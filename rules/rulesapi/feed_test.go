package rulesapi

import (
	"testing"

	"github.com/cepd/cepd/cep"
)

// TestFeedForgetsBySize keeps no more bytes than it may, and the newest alerts of all.
func TestFeedForgetsBySize(t *testing.T) {
	size := 1 << 20
	f := NewFeed(0, func(dst []byte, _ *cep.Alert) []byte { return append(dst, make([]byte, size)...) })
	for epoch := cep.Epoch(1); epoch <= 3; epoch++ {
		list := make([]*cep.Alert, 50)
		for i := range list {
			list[i] = &cep.Alert{Rule: "a"}
		}
		f.Committed(epoch, list)
		sum := 0
		for _, e := range f.list {
			sum += len(e.json)
		}
		if sum != f.bytes || sum > alertBytesMax || len(f.list) != min(int(epoch)*50, 64) || f.first+uint64(len(f.list)) != uint64(epoch)*50 {
			t.Errorf("epoch %d: %d bytes, counted %d, of %d alerts from %d", epoch, sum, f.bytes, len(f.list), f.first)
		}
		if last := f.list[len(f.list)-1].mark; last != (mark{epoch, 50}) {
			t.Errorf("the newest is %s", last)
		}
	}
	if f.from != (mark{2, 36}) {
		t.Errorf("all is there behind %s", f.from)
	}
	// One that is too large by itself is not kept, and known to be missing.
	size = alertBytesMax + 1
	f.Committed(4, []*cep.Alert{{Rule: "a"}})
	if len(f.list) != 0 || f.from != (mark{4, 1}) || f.end() != 151 {
		t.Errorf("%d alerts are left, all is there behind %s, the end is %d", len(f.list), f.from, f.end())
	}
}
