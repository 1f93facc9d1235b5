package patterns

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// meaningVersion is part of every fingerprint. It is raised when the same rule begins to mean something else.
const meaningVersion = 1

// fingerprint returns the meaning of a rule: rules with equal fingerprints can share state. It covers from, by, where,
// within, the elements with macros inlined, after_match, emit and on_timeout, and nothing else: an edit of the text, the
// alert, the exceptions, the limits or the contents of a list leaves open starts alone.
//
// Everything is written in a fixed order with lengths, so that no two rules can be written alike. The streams of an
// element, and not those of the rule, decide what it takes; a default that is written out changes nothing.
func fingerprint(r *Rule) string {
	w := digest{sha256.New()}
	w.number(meaningVersion)
	w.texts(r.Key)
	w.expr(r.Where)
	w.number(int64(r.Within))
	w.number(int64(r.After))
	if r.After == nfa.SkipToFirst || r.After == nfa.SkipToLast {
		w.number(int64(r.Target))
	}
	w.bool(r.Ordered)
	w.bool(r.Timeouts)
	w.texts(r.Streams)
	w.number(int64(len(r.Elements)))
	for _, e := range r.Elements {
		w.text(r.Names[e.Name])
		w.bool(e.Absent)
		w.texts(e.From)
		w.number(int64(len(e.By)))
		for _, p := range e.By {
			w.expr(p)
		}
		w.expr(e.Where)
		w.number(int64(e.Link))
		w.number(int64(e.Loop))
		w.number(int64(e.Min))
		w.number(int64(e.Max))
		w.bool(e.Optional)
		for _, d := range []cep.Duration{e.Within, e.LoopWithin, e.For} {
			w.number(int64(d))
		}
		w.bool(e.FromStart)
	}
	return hex.EncodeToString(w.Sum(nil))
}

// digest writes values to a hash; a hash never fails.
type digest struct{ hash.Hash }

func (d digest) number(n int64) {
	_, _ = d.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func (d digest) bool(b bool) {
	if b {
		d.number(1)
	} else {
		d.number(0)
	}
}

func (d digest) text(s string) {
	d.number(int64(len(s)))
	_, _ = d.Write([]byte(s))
}

func (d digest) texts(list []string) {
	d.number(int64(len(list)))
	for _, s := range list {
		d.text(s)
	}
}

// expr writes an expression in its normal form; none is not the same as an empty one.
func (d digest) expr(e *expression.Expr) {
	if e == nil {
		d.number(-1)
		return
	}
	d.text(e.Canonical)
}
