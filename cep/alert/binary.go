package alert

import (
	"encoding/binary"
	"fmt"

	"github.com/cepd/cepd/cep"
)

// The bytes of an alert without its events, for state: docs/format/state.md draws them.
//
//	alert  = version, id, text kind, flags (1: timed, 2: ordered, 4: follows), [id that it follows], int time, int revision,
//	         uint events, int first, int last, uint suppressed, text rule, fingerprint, severity, title, named key, fields,
//	         texts tags, mitre
//	named  = uint count, (text name, value)s
//	texts  = uint count, texts
const alertVersion = 1

const (
	alertTimed = 1 << iota
	alertOrdered
	alertFollows
)

// AppendAlert appends an alert, but for its steps, so that [ReadAlert] gives it back.
func AppendAlert(dst []byte, a *cep.Alert) []byte {
	dst = append(append(dst, alertVersion), a.ID[:]...)
	dst = cep.AppendText(dst, a.Kind.String())
	flags := byte(0)
	if a.Timed {
		flags |= alertTimed
	}
	if a.Ordered {
		flags |= alertOrdered
	}
	follows := a.Follows != (cep.AlertID{})
	if follows {
		flags |= alertFollows
	}
	dst = append(dst, flags)
	if follows {
		dst = append(dst, a.Follows[:]...)
	}
	dst = binary.AppendVarint(dst, int64(a.Time))
	dst = binary.AppendVarint(dst, a.Revision)
	dst = binary.AppendUvarint(dst, uint64(a.Events))
	dst = binary.AppendVarint(binary.AppendVarint(dst, int64(a.First)), int64(a.Last))
	dst = binary.AppendUvarint(dst, a.Suppressed)
	for _, s := range []string{a.Rule, a.Fingerprint, a.Severity, a.Title} {
		dst = cep.AppendText(dst, s)
	}
	for _, list := range [][]cep.Named{a.Key, a.Fields} {
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for _, n := range list {
			dst = cep.AppendValue(cep.AppendText(dst, n.Name), n.Value)
		}
	}
	for _, list := range [][]string{a.Tags, a.Mitre} {
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for _, s := range list {
			dst = cep.AppendText(dst, s)
		}
	}
	return dst
}

// ReadAlert reads what [AppendAlert] has written. The error wraps [cep.ErrBytes].
func ReadAlert(data []byte) (*cep.Alert, error) {
	r := cep.NewReader(data)
	a := readAlert(&r)
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("read an alert: %w", err)
	}
	return a, nil
}

func readVersion(r *cep.Reader, what string, known byte) {
	if r.Left() == 0 {
		r.Fail("no %s", what)
		return
	}
	switch v := r.Byte(); {
	case v == 0:
		r.Fail("no %s", what)
	case v > known:
		r.Fail("%s of version %d, this program reads up to %d", what, v, known)
	}
}

func readAlert(r *cep.Reader) *cep.Alert {
	a := &cep.Alert{}
	readVersion(r, "alert", alertVersion)
	copy(a.ID[:], r.Bytes(len(a.ID)))
	a.Kind = readKind(r)
	flags := r.Byte()
	r.Check(flags < 2*alertFollows, "unknown flags of an alert")
	a.Timed, a.Ordered = flags&alertTimed != 0, flags&alertOrdered != 0
	if flags&alertFollows != 0 {
		copy(a.Follows[:], r.Bytes(len(a.Follows)))
	}
	a.Time = cep.Time(r.Int())
	a.Revision = r.Int()
	a.Events = r.Index(eventsMax, "event")
	a.First, a.Last = cep.Time(r.Int()), cep.Time(r.Int())
	a.Suppressed = r.Uint()
	for _, s := range []*string{&a.Rule, &a.Fingerprint, &a.Severity, &a.Title} {
		*s = r.Text()
	}
	for _, list := range []*[]cep.Named{&a.Key, &a.Fields} {
		for range r.Count(2) {
			*list = append(*list, cep.Named{Name: r.Text(), Value: r.Value()})
		}
	}
	for _, list := range []*[]string{&a.Tags, &a.Mitre} {
		for range r.Count(1) {
			*list = append(*list, r.Text())
		}
	}
	return a
}

// eventsMax is more than any match holds: each of its events takes 64 bytes while it is open.
const eventsMax = 1 << 40

func readKind(r *cep.Reader) cep.AlertKind {
	name := r.Text()
	for k := cep.AlertMatch; k <= cep.AlertRetract; k++ {
		if k.String() == name {
			return k
		}
	}
	r.Fail("unknown kind of alert %q", name)
	return 0
}
