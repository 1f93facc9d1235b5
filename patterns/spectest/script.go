package spectest

import (
	"fmt"
	"strings"
)

// Block is one directive of a script: a command, its input, and the output that is expected of it.
//
//	# Comments and blank lines before a directive belong to it.
//	command argument argument
//	input lines
//	----
//	output lines, up to a blank line
//
// Output that itself holds a blank line stands between two pairs of `----` lines.
type Block struct {
	Line    int // of the command, from 1
	Comment string
	Command string
	Args    []string
	Input   string
	// Output is what the script expects; every line ends in a newline.
	Output string
}

const separator = "----"

// Read splits a script into its blocks. Comment lines behind the last block are lost: a script ends with a directive.
func Read(name string, text string) ([]*Block, error) {
	var blocks []*Block
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	comment := ""
	for i := 0; i < len(lines); {
		if l := strings.TrimSpace(lines[i]); l == "" || strings.HasPrefix(l, "#") {
			comment += lines[i] + "\n"
			i++
			continue
		}
		words := strings.Fields(lines[i])
		b := &Block{Line: i + 1, Comment: comment, Command: words[0], Args: words[1:]}
		comment = ""
		for i++; i < len(lines) && lines[i] != separator; i++ {
			b.Input += lines[i] + "\n"
		}
		if i == len(lines) {
			return nil, fmt.Errorf("%s:%d: directive %q has no line %s", name, b.Line, b.Command, separator)
		}
		i++
		if i < len(lines) && lines[i] == separator {
			for i++; ; i++ {
				if i+1 >= len(lines) {
					return nil, fmt.Errorf("%s:%d: output of %q has no end", name, b.Line, b.Command)
				}
				if lines[i] == separator && lines[i+1] == separator {
					i += 2
					break
				}
				b.Output += lines[i] + "\n"
			}
		} else {
			for ; i < len(lines) && lines[i] != ""; i++ {
				b.Output += lines[i] + "\n"
			}
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// Print writes blocks as [Read] reads them.
func Print(blocks []*Block) string {
	var sb strings.Builder
	for _, b := range blocks {
		sb.WriteString(b.Comment)
		sb.WriteString(strings.Join(append([]string{b.Command}, b.Args...), " "))
		sb.WriteString("\n" + b.Input + separator + "\n")
		if strings.Contains("\n"+b.Output, "\n\n") {
			sb.WriteString(separator + "\n" + b.Output + separator + "\n" + separator + "\n")
		} else {
			sb.WriteString(b.Output)
		}
	}
	return sb.String()
}
