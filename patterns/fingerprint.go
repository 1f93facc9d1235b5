package patterns

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// meaningVersion is part of every fingerprint. It is raised when the same rule begins to mean something else.
const meaningVersion = 1

// fingerprint returns the meaning of a rule: rules with equal fingerprints can share state. It covers from, by, where,
// within, the elements with macros inlined, without, keep, after_match, emit and on_timeout, and nothing else: an edit of the text, the
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
	w.elements(r, r.Elements)
	w.number(int64(len(r.Without)))
	for _, x := range r.Without {
		w.text(r.Names[x.Name])
		w.streams(x.From)
		w.exprs(x.By)
		w.expr(x.Where)
	}
	w.bool(r.Newest)
	if r.Pattern != nil {
		w.text(r.Pattern.String(names(r.Names)))
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

func (d digest) elements(r *Rule, elements []Element) {
	d.number(int64(len(elements)))
	for _, e := range elements {
		d.number(int64(e.Kind))
		if e.Kind == nfa.KindLeaf {
			d.text(r.Names[e.Name])
		}
		d.bool(e.Absent)
		d.streams(e.From)
		d.exprs(e.By)
		for _, x := range []*expression.Expr{e.Where, e.Until, e.Having, e.Distinct} {
			d.expr(x)
		}
		for _, n := range []int{int(e.Link), int(e.Loop), e.Min, e.Max, e.Need} {
			d.number(int64(n))
		}
		for _, b := range []bool{e.Optional, e.FromStart, e.Times, e.Greedy, e.Edge} {
			d.bool(b)
		}
		for _, t := range []cep.Duration{e.Within, e.LoopWithin, e.For} {
			d.number(int64(t))
		}
		d.bool(e.FirstSeen != nil)
		if f := e.FirstSeen; f != nil {
			d.exprs(f.By)
			d.number(int64(f.For))
			d.bool(f.FromStart)
		}
		d.elements(r, e.Elements)
		d.number(int64(len(e.Alternatives)))
		for _, a := range e.Alternatives {
			d.elements(r, a)
		}
	}
}

// streams writes a set of streams: the order in which they are written down means nothing.
func (d digest) streams(list []string) {
	d.texts(slices.Compact(slices.Sorted(slices.Values(list))))
}

func (d digest) exprs(list []*expression.Expr) {
	d.number(int64(len(list)))
	for _, e := range list {
		d.expr(e)
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
