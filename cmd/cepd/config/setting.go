package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/expression"
)

// setting is a key of the configuration and what may stand behind it. One table of settings ([Config.settings]) is what the
// file is read by, what names the variables of the environment, what is printed and what the documentation is made of.
type setting struct {
	name string
	// about is a sentence for the documentation.
	about    string
	required bool
	value    value
}

// value is what stands behind a key: *scalar, *list, section, *choice, *named or *pairs.
type value interface{ isValue() }

// section is a map of keys that are known.
type section []setting

// choice is a map with exactly one of several keys, which says of which kind a thing is. Under a setting without a name its
// keys stand beside the others.
type choice struct {
	// what it is that has a kind: "sink".
	what    string
	options []option
}

// option is one kind. make makes the thing, made says whether that was done.
type option struct {
	name, about string
	make        func() section
	made        func() section
}

// named is a map of things that the user names.
type named struct {
	// what is one of them: "stream".
	what string
	// add makes one; the name has the right shape.
	add func(name string) section
	// all are those that were made, in written order.
	all func() []namedSection
	// check says what is wrong with a name.
	check func(name string) *mistake
	// sample is one that belongs to nothing, for the documentation.
	sample func() section
}

type namedSection struct {
	name     string
	settings section
}

// scalar is a single value.
type scalar struct {
	// what the value is, and its bounds with the reason for them: for the documentation.
	what, bounds string
	// path says that the text names a file.
	path bool
	// secret values stand in the environment alone and are never shown.
	secret bool
	// set takes a value, as it was written, or says what is wrong with it.
	set func(in input) *mistake
	// get returns the value as it would be written; "" is not printed.
	get func() string
}

// list is a list of values; one alone may stand without brackets.
type list struct {
	what  string
	paths bool
	reset func()
	add   func(in input) *mistake
	get   func() []string
}

// pairs is a map of names and texts that the user chooses.
type pairs struct {
	what  string
	reset func()
	add   func(name, text string) *mistake
	get   func() [][2]string
}

func (section) isValue() {}
func (*choice) isValue() {}
func (*named) isValue()  {}
func (*scalar) isValue() {}
func (*list) isValue()   {}
func (*pairs) isValue()  {}

// input is a value as it was written.
type input struct {
	text string
	// dir is what relative paths start from.
	dir string
}

// mistake is what is wrong with a value.
type mistake struct{ code, message, hint string }

func mistakef(code, hint, format string, args ...any) *mistake {
	return &mistake{code: code, hint: hint, message: fmt.Sprintf(format, args...)}
}

// bounds are the least and the most that a number may be, and why.
type bounds[T any] struct {
	least, most T
	why         string
}

func (b bounds[T]) describe(format func(T) string) string {
	return fmt.Sprintf("%s to %s: %s", format(b.least), format(b.most), b.why)
}

// duration is a setting of a length of time, as rules write it.
func duration(d *cep.Duration, b bounds[cep.Duration]) *scalar {
	return &scalar{
		what: "duration", bounds: b.describe(cep.FormatDuration),
		set: func(in input) *mistake {
			v, err := patterns.ParseDuration(in.text)
			switch {
			case err != nil:
				return mistakef(codeDuration, err.Error(), "%q is no duration", in.text)
			case v < b.least || v > b.most:
				return mistakef(codeBounds, "", "%s is out of bounds: %s", in.text, b.describe(cep.FormatDuration))
			}
			*d = v
			return nil
		},
		get: func() string { return cep.FormatDuration(*d) },
	}
}

// orWord is s with one word more, which stands for a value of its own.
func orWord(s *scalar, word string, is func() bool, choose func(bool)) *scalar {
	inner := *s
	s.what = inner.what + ", or `" + word + "`"
	s.set = func(in input) *mistake {
		if in.text == word {
			choose(true)
			return nil
		}
		m := inner.set(in)
		if m == nil {
			choose(false)
		} else if m.code != codeBounds {
			m.hint += "; or the word " + word
		}
		return m
	}
	s.get = func() string {
		if is() {
			return word
		}
		return inner.get()
	}
	return s
}

// number is a setting of a count.
func number[T int | int64](n *T, b bounds[T]) *scalar {
	format := func(v T) string { return strconv.FormatInt(int64(v), 10) }
	return &scalar{
		what: "number", bounds: b.describe(format),
		set: func(in input) *mistake {
			v, err := strconv.ParseInt(in.text, 10, 64)
			switch {
			case err != nil:
				return mistakef(codeNumber, "", "%q is no whole number", in.text)
			case v < int64(b.least) || v > int64(b.most):
				return mistakef(codeBounds, "", "%d is out of bounds: %s", v, b.describe(format))
			}
			*n = T(v)
			return nil
		},
		get: func() string { return format(*n) },
	}
}

// size is a setting of a number of bytes.
func size(n *int64, b bounds[int64]) *scalar {
	return &scalar{
		what: "size", bounds: b.describe(FormatSize),
		set: func(in input) *mistake {
			v, err := ParseSize(in.text)
			switch {
			case err != nil:
				return mistakef(codeSize, err.Error(), "%q is no size", in.text)
			case v < b.least || v > b.most:
				return mistakef(codeBounds, "", "%s is out of bounds: %s", in.text, b.describe(FormatSize))
			}
			*n = v
			return nil
		},
		get: func() string { return FormatSize(*n) },
	}
}

// yes is a setting that is true or false.
func yes(v *bool) *scalar {
	return &scalar{
		what: "true or false",
		set: func(in input) *mistake {
			if in.text != "true" && in.text != "false" {
				return mistakef(codeBool, "write true or false", "%q is neither true nor false", in.text)
			}
			*v = in.text == "true"
			return nil
		},
		get: func() string { return strconv.FormatBool(*v) },
	}
}

// word is a setting that is one of several words, in the order of the values they stand for.
func word[T ~uint8](v *T, words ...string) *scalar {
	return &scalar{
		what: "`" + strings.Join(words, "`, `") + "`",
		set: func(in input) *mistake {
			i := slices.Index(words, in.text)
			if i < 0 {
				return mistakef(codeWord, nearest(in.text, words), "%q is none of %s", in.text, strings.Join(words, ", "))
			}
			*v = T(i)
			return nil
		},
		get: func() string { return words[*v] },
	}
}

// text is a setting with a shape of its own.
func text(s *string, what string, check func(string) *mistake) *scalar {
	return &scalar{
		what: what,
		set: func(in input) *mistake {
			if check != nil {
				if m := check(in.text); m != nil {
					return m
				}
			}
			*s = in.text
			return nil
		},
		get: func() string { return *s },
	}
}

// path is a setting that names a file or directory. The words in keep are none.
func path(s *string, what string, keep ...string) *scalar {
	return &scalar{
		what: what, path: true,
		set: func(in input) *mistake {
			*s = in.text
			if !slices.Contains(keep, in.text) {
				*s = resolve(in)
			}
			return nil
		},
		get: func() string { return *s },
	}
}

// resolve returns a path that the process can open.
func resolve(in input) string {
	if filepath.IsAbs(in.text) || in.text == "" {
		return in.text
	}
	return filepath.Join(in.dir, in.text)
}

// paths is a list of paths.
func paths(l *[]string) *list {
	return &list{
		what: "list of paths", paths: true,
		reset: func() { *l = nil },
		add: func(in input) *mistake {
			if in.text == "" {
				return mistakef(codeShape, "", "a path has no letters")
			}
			*l = append(*l, resolve(in))
			return nil
		},
		get: func() []string { return *l },
	}
}

// networks is a list of networks.
func networks(l *[]netip.Prefix) *list {
	return &list{
		what:  "list of networks",
		reset: func() { *l = nil },
		add: func(in input) *mistake {
			p, err := netip.ParsePrefix(in.text)
			if err != nil {
				return mistakef(codeAddress, "write ADDRESS/BITS, as 10.1.0.0/16", "%q is no network", in.text)
			}
			*l = append(*l, p)
			return nil
		},
		get: func() []string {
			var all []string
			for _, p := range *l {
				all = append(all, p.String())
			}
			return all
		},
	}
}

// texts is a list with a check for each entry.
func texts(l *[]string, what string, check func(string) *mistake) *list {
	return &list{
		what:  what,
		reset: func() { *l = nil },
		add: func(in input) *mistake {
			if m := check(in.text); m != nil {
				return m
			}
			*l = append(*l, in.text)
			return nil
		},
		get: func() []string { return *l },
	}
}

// nearest proposes the word that was probably meant.
func nearest(wrong string, words []string) string {
	if near := expression.Nearest(wrong, words); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}
