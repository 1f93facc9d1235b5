package redissink

import (
	"time"

	"github.com/cepd/cepd/sinks"
)

// marksMax is how many moments a retention remembers: entries are dropped in steps of a 64th of their age.
const marksMax = 64

// retention remembers when which sequence was published, so that entries can be dropped by age: their ids say no time. After
// a start it knows nothing about what was there, and keeps that for the whole age once more.
type retention struct {
	age     time.Duration
	lineage uint64
	marks   []mark
	// below is the sequence below which everything has reached the age.
	below uint64
}

type mark struct {
	at       time.Time
	sequence uint64
}

func (r *retention) start(p sinks.Progress) {
	r.lineage, r.marks, r.below = p.Lineage, nil, 0
	r.note(p)
}

// note says that everything up to p was published by now.
func (r *retention) note(p sinks.Progress) {
	if r.age == 0 {
		return
	}
	if p.Lineage != r.lineage {
		r.lineage, r.marks, r.below = p.Lineage, nil, 0
	}
	now := time.Now()
	if n := len(r.marks); n == 0 || now.Sub(r.marks[n-1].at) >= r.age/marksMax {
		r.marks = append(r.marks, mark{at: now, sequence: p.Sequence})
	}
}

// minID is the id below which entries have reached the age; "" for none.
func (r *retention) minID(lineage uint64) string {
	if r.age == 0 || lineage != r.lineage {
		return ""
	}
	old := 0
	for old < len(r.marks) && time.Since(r.marks[old].at) >= r.age {
		r.below = r.marks[old].sequence + 1
		old++
	}
	r.marks = r.marks[old:]
	if r.below == 0 {
		return ""
	}
	return entryID(lineage, r.below)
}
