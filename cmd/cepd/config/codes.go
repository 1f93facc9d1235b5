package config

import "github.com/cepd/cepd/patterns"

// The codes of configurations. They are stable: a code that is no longer given is never given another meaning.
const (
	codeSyntax      = "CEP0901"
	codeUnknownKey  = "CEP0902"
	codeDuplicate   = "CEP0903"
	codeTag         = "CEP0904"
	codeText        = "CEP0905"
	codeShape       = "CEP0906"
	codeMissing     = "CEP0907"
	codeVersion     = "CEP0908"
	codeDuration    = "CEP0909"
	codeSize        = "CEP0910"
	codeNumber      = "CEP0911"
	codeBool        = "CEP0912"
	codeWord        = "CEP0913"
	codeName        = "CEP0914"
	codeBounds      = "CEP0915"
	codeTime        = "CEP0916"
	codeAddress     = "CEP0917"
	codeFile        = "CEP0918"
	codeKind        = "CEP0919"
	codeSecret      = "CEP0920"
	codeNoSink      = "CEP0921"
	codeContradicts = "CEP0922"
	codeEnvironment = "CEP0923"
	codeSet         = "CEP0924"
	codeNoStream    = "CEP0925"
	codeTo          = "CEP0926"
	codeUnread      = "CEP0927"
	codeNoAlerts    = "CEP0928"
	codeRefused     = "CEP0929"
	codeOpen        = "CEP0930"
	codePlainText   = "CEP0931"
)

// Codes returns all codes of configurations, in order.
func Codes() []patterns.Code {
	return []patterns.Code{
		{Code: codeSyntax, Title: "The configuration is not YAML.", Explanation: "What stands behind the mistake is not looked at."},
		{Code: codeUnknownKey, Title: "There is no such key in this place."},
		{Code: codeDuplicate, Title: "A key stands twice in one map."},
		{Code: codeTag, Title: "YAML tags, anchors, aliases and merge keys are not allowed.", Explanation: "What is written is what is read."},
		{Code: codeText, Title: "The file is too large, nested too deeply, or no clean UTF-8."},
		{Code: codeShape, Title: "A value has the wrong shape.", Explanation: "A list where a text is expected, a key without a value, and so on."},
		{Code: codeMissing, Title: "A required key is missing."},
		{Code: codeVersion, Title: "The configuration is of another version."},
		{Code: codeDuration, Title: "Not a duration.", Explanation: "Durations are whole numbers with `ms`, `s`, `m`, `h`, `d` or `w`, also combined: `1h30m`."},
		{Code: codeSize, Title: "Not a size.", Explanation: "Sizes are whole numbers with `B`, `KiB`, `MiB`, `GiB` or `TiB`: powers of 1,024."},
		{Code: codeNumber, Title: "Not a whole number."},
		{Code: codeBool, Title: "Not `true` or `false`."},
		{Code: codeWord, Title: "Not one of the words that are possible here."},
		{Code: codeName, Title: "A name has a wrong shape."},
		{Code: codeBounds, Title: "A number, duration or size is out of its bounds.", Explanation: "The message says why there are any."},
		{Code: codeTime, Title: "Not a place where events keep their time.", Explanation: "`FIELD[,LAYOUT[,ZONE]]`: [inputs.md](inputs.md). Or the word `arrival`."},
		{Code: codeAddress, Title: "An address or URL cannot be used."},
		{Code: codeFile, Title: "A file that the configuration names cannot be read."},
		{Code: codeKind, Title: "A source or sink has no kind, or more than one."},
		{Code: codeSecret, Title: "A secret stands in the configuration.", Explanation: "Configurations are copied, committed and printed. Secrets stand in a file of their own or in the environment."},
		{Code: codeNoSink, Title: "There is no such sink."},
		{Code: codeContradicts, Title: "Two settings contradict each other."},
		{Code: codeEnvironment, Title: "A variable `CEPD_...` names no setting.", Explanation: "A misspelt one would change nothing, and nobody would know why."},
		{Code: codeSet, Title: "`--set` names no setting."},
		{Code: codeNoStream, Title: "A rule reads a stream that is not configured."},
		{Code: codeTo, Title: "A rule sends to a sink that is not configured."},
		{Code: codeUnread, Title: "No rule reads the stream.", Explanation: "Its source is not opened.", Warning: true},
		{Code: codeNoAlerts, Title: "The alerts of a rule go nowhere.", Explanation: "The rule names no sink in `to`, and no sink takes the alerts of such rules.", Warning: true},
		{Code: codeRefused, Title: "A source or sink cannot be made with these settings.", Explanation: "The message is that of the source or sink."},
		{Code: codeOpen, Title: "The listener can be reached from elsewhere, and asks nobody who they are.", Explanation: "[security.md](security.md) says how tokens are made."},
		{Code: codePlainText, Title: "A password or token goes over the network in plain text.", Warning: true},
	}
}
