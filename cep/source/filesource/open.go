package filesource

import (
	"io"

	"github.com/cepd/cepd/cep/source"
)

// Form says how records are to be cut and decoded.
type Form string

// The forms. FormAuto goes by the name: .csv and .tsv, in front of .gz and .zst too, are delimited, all else is JSON.
const (
	FormAuto Form = "auto"
	FormJSON Form = "json"
	FormCSV  Form = "csv"
	FormTSV  Form = "tsv"
)

// Config says what to open.
type Config struct {
	// Stream is the stream that the files are partitions of.
	Stream string
	// Paths are files, directories (all files below them, but for names that begin with a dot), patterns as of
	// path/filepath.Match, and "-" for Stdin.
	Paths []string
	// Partitions gives out the partitions; it knows Stream.
	Partitions *source.Partitions
	// Form is FormAuto where it is "".
	Form Form
	// Stdin is what "-" reads; it is not closed.
	Stdin io.Reader
	// MaxRecord is the limit of a record's size in bytes; source.MaxRecord where it is 0.
	MaxRecord int
}
