// Package layout writes YAML files in the one form that `cepd fmt` gives them.
//
// [Format] takes the text of a file and returns it laid out, or why it cannot: the
// [patterns.Diagnostics] of a file that cannot be read, or a [Refusal].
// Lines stay as they were broken, keys keep their order and comments their place: what changes is indentation, the spaces
// between words, blank lines, and expressions that YAML tears apart for want of quotes, which get them.
//
//	text, err := layout.Format("rules/ssh.yaml", data)
//	if err != nil {
//		return err
//	}
//
// The text is cut into tokens (scalars, marks and comments, each with the column that it has at the beginning of a line),
// and these are written again. What was written is read again and compared with what was there: a file whose meaning would
// change, or that would lose a comment, is refused instead.
//
// # Concurrency
//
// Format may be called by goroutines at once.
//
// # Cost
//
// Format reads the text twice more than Load does. It reads no other files.
//
// # Caveats
//
// Keys that are written with ? and keys without a text are refused: no rule and no configuration has such.
package layout
