// Package editor holds the schemas of rules and configurations to what editors do with them: a language server is asked for
// completions, explanations and mistakes, as an editor asks it.
package editor
