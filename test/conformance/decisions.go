package conformance

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Decisions is the file that says where cepd differs from a peer on purpose. It has lines of four kinds:
//
//	covers FILE SUM             every decided vector of this very file is listed below
//	reason NAME: SENTENCE       what our semantics say, for each reason that lists and verdicts name
//	vector FILE ID SUM NAME; …  this vector differs, for these reasons
//	timeout FILE ID SUM NAME; … the starts that time out differ
//
// The sum of a vector tells it from another one with the same serial number. A file that is not covered comes from
// another seed: its vectors are judged by the reasons alone.
type Decisions struct {
	covers   map[string]string
	sentence map[string]string
	vectors  map[listKey]string
	timeouts map[listKey]string
	used     map[listKey]bool
}

type listKey struct{ kind, file, id, sum string }

// ReadDecisions reads the file.
func ReadDecisions(name string) (*Decisions, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	return parseDecisions(name, string(data))
}

func parseDecisions(name, text string) (*Decisions, error) {
	d := &Decisions{
		covers: map[string]string{}, sentence: map[string]string{},
		vectors: map[listKey]string{}, timeouts: map[listKey]string{}, used: map[listKey]bool{},
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "covers":
			f := strings.Fields(rest)
			if len(f) != 2 {
				return nil, fmt.Errorf("%s:%d: covers FILE SUM", name, number)
			}
			d.covers[f[0]] = f[1]
		case "reason":
			reason, sentence, ok := strings.Cut(rest, ": ")
			if !ok || d.sentence[reason] != "" {
				return nil, fmt.Errorf("%s:%d: reason NAME: SENTENCE, once", name, number)
			}
			d.sentence[reason] = sentence
		case "vector", "timeout":
			f := strings.SplitN(rest, " ", 4)
			if len(f) != 4 {
				return nil, fmt.Errorf("%s:%d: %s FILE ID SUM REASON", name, number, kind)
			}
			k := listKey{kind, f[0], f[1], f[2]}
			list := d.vectors
			if kind == "timeout" {
				list = d.timeouts
			}
			if list[k] != "" {
				return nil, fmt.Errorf("%s:%d: %s is listed twice", name, number, f[1])
			}
			list[k] = f[3]
		default:
			return nil, fmt.Errorf("%s:%d: unknown word %q", name, number, kind)
		}
	}
	for _, list := range []map[listKey]string{d.vectors, d.timeouts} {
		for k, reasons := range list {
			for reason := range strings.SplitSeq(reasons, "; ") {
				if d.sentence[reason] == "" {
					return nil, fmt.Errorf("%s: %s is decided by %q, which has no sentence", name, k.id, reason)
				}
			}
		}
	}
	return d, nil
}

// Covers reports whether the list was made for this very file.
func (d *Decisions) Covers(file, sum string) bool { return d.covers[file] == sum }

// Verdict says where a vector stands.
type Verdict int

// The verdicts.
const (
	Equal Verdict = iota
	Decided
	NotExpressible
	Wrong
)

// Judge weighs a vector whose outcome is equal to the peer's or differs by diff. refusal is set where the definition was
// refused. because explains a verdict that is not Equal.
func (d *Decisions) Judge(file, fileSum string, v *Vector, diff string, refused bool) (_ Verdict, because string) {
	k := listKey{"vector", file, v.ID, v.Sum}
	listed := d.vectors[k]
	if listed != "" {
		d.used[k] = true
	}
	reasons := v.reasons()
	named := strings.Join(reasons, "; ")
	switch {
	// The peer's generator labels every definition that has no meaning here, whatever the peer makes of it.
	case v.Kind != "invalid" && refused && !v.mayRefuse():
		return Wrong, "refused, but no quirk of the vector says that it has no meaning"
	case diff == "" && listed != "":
		return Wrong, "is equal, but listed as decided"
	case diff == "":
		return Equal, ""
	case listed != "" && listed != named:
		return Wrong, fmt.Sprintf("is listed as decided by %q, but has %q", listed, named)
	case listed != "":
		return Decided, named
	case d.Covers(file, fileSum):
		return Wrong, fmt.Sprintf("differs and is not listed (quirks: %q)", named)
	case len(reasons) == 0:
		return Wrong, "differs, and nothing excuses it"
	}
	if i := slices.IndexFunc(reasons, func(r string) bool { return d.sentence[r] == "" }); i >= 0 {
		return Wrong, fmt.Sprintf("no sentence for %q", reasons[i])
	}
	return Decided, named
}

// Use marks the entries of a vector that cannot be judged yet: they may stand for the day when it can.
func (d *Decisions) Use(file string, v *Vector) {
	d.used[listKey{"vector", file, v.ID, v.Sum}] = true
	d.used[listKey{"timeout", file, v.ID, v.Sum}] = true
}

// Stale are the entries for covered files that no vector asked for: the list must not outlive its vectors.
func (d *Decisions) Stale(file, fileSum string) []string {
	if !d.Covers(file, fileSum) {
		return nil
	}
	var out []string
	for _, list := range []map[listKey]string{d.vectors, d.timeouts} {
		for k := range list {
			if k.file == file && !d.used[k] {
				out = append(out, k.kind+" "+k.id)
			}
		}
	}
	slices.Sort(out)
	return out
}

// JudgeTimeouts weighs the starts that timed out, in a vector whose matches are equal.
func (d *Decisions) JudgeTimeouts(file, fileSum string, v *Vector, diff string) (_ Verdict, because string) {
	k := listKey{"timeout", file, v.ID, v.Sum}
	listed := d.timeouts[k]
	if listed != "" {
		d.used[k] = true
	}
	reasons := v.timeoutReasons()
	named := strings.Join(reasons, "; ")
	switch {
	case diff == "" && listed != "":
		return Wrong, "is equal, but listed as decided"
	case diff == "":
		return Equal, ""
	case len(reasons) == 0:
		return Wrong, "differs, and nothing excuses it"
	case listed != "" && listed != named:
		return Wrong, fmt.Sprintf("is listed as decided by %q, but has %q", listed, named)
	case listed == "" && d.Covers(file, fileSum):
		return Wrong, fmt.Sprintf("differs and is not listed (%q)", named)
	}
	if i := slices.IndexFunc(reasons, func(r string) bool { return d.sentence[r] == "" }); i >= 0 {
		return Wrong, fmt.Sprintf("no sentence for %q", reasons[i])
	}
	return Decided, named
}
