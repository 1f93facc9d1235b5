package patterns

import (
	"slices"

	"github.com/cepd/cepd/patterns/expression"
)

// The codes of files and rules. They are stable: a code that is no longer given is never given another meaning.
const (
	codeSyntax       = "CEP0101"
	codeField        = "CEP0102"
	codeUnknownKey   = "CEP0103"
	codeDuplicateKey = "CEP0104"
	codeTag          = "CEP0105"
	codeAlias        = "CEP0106"
	codeTooLarge     = "CEP0107"
	codeQuotes       = "CEP0108"
	codeNull         = "CEP0109"
	codeShape        = "CEP0110"
	codeMissing      = "CEP0111"
	codeTooMuch      = "CEP0112"
	codeVersion      = "CEP0113"
	codeEncoding     = "CEP0114"
	codeDuration     = "CEP0115"
	codeNumber       = "CEP0116"
	codeBool         = "CEP0117"
	codeWord         = "CEP0118"
	codeTime         = "CEP0119"
	codeID           = "CEP0120"
	codeDuplicateID  = "CEP0121"
	codeName         = "CEP0122"
	codeDuplicate    = "CEP0123"
	codeMitre        = "CEP0124"
	codeTableFile    = "CEP0125"
	codeTableValue   = "CEP0126"
	codeFrom         = "CEP0127"
	codeBy           = "CEP0128"
	codeEmpty        = "CEP0130"
	codeElement      = "CEP0131"
	codeElementKey   = "CEP0132"
	codeTimes        = "CEP0133"
	codeContiguity   = "CEP0134"
	codeFirstWithin  = "CEP0135"
	codeHold         = "CEP0136"
	codeHoldMissing  = "CEP0137"
	codeAbsencePlace = "CEP0138"
	codeAbsenceTail  = "CEP0139"
	codeNothing      = "CEP0140"
	codeNoWindow     = "CEP0141"
	codeGap          = "CEP0142"
	codeUnbounded    = "CEP0143"
	codeTooMany      = "CEP0144"
	codeAfter        = "CEP0145"
	codeSteps        = "CEP0146"
	codeSuppress     = "CEP0147"
	codeTest         = "CEP0148"
	codeMore         = "CEP0149"
	codeUntil        = "CEP0150"
	codeMembers      = "CEP0151"
	codeHoldPlace    = "CEP0152"
	codeFirstSeen    = "CEP0153"
	codeNewest       = "CEP0154"
	codeKeys         = "CEP0155"
	codeOverride     = "CEP0156"
	codeCycle        = "CEP0157"
	codeResolve      = "CEP0158"
	codeSilence      = "CEP0159"
	codeNoKey        = "CEP0160"
	codeStepField    = "CEP0161"
	codeAnyLoop      = "CEP0162"
	codeAny          = "CEP0163"
	codeTail         = "CEP0164"
	codeNever        = "CEP0165"
	codeNoTimeout    = "CEP0166"
	codeTestStream   = "CEP0167"
	codeAfterAbsence = "CEP0168"
	codeGreedy       = "CEP0169"
	codeGreedyLast   = "CEP0170"
	codeState        = "CEP0171"
	codeNoRule       = "CEP0172"
	codeSilenceless  = "CEP0173"
	codeHidden       = "CEP0174"
	codeTestFile     = "CEP0175"
	codeRow          = "CEP0301"
	codeRowSteps     = "CEP0302"
	codeRowWord      = "CEP0303"
	codeRowGreedy    = "CEP0351"
	codeRowAfter     = "CEP0352"
	codeRowBlank     = "CEP0353"
	codeRowLoop      = "CEP0354"
	codeRowHidden    = "CEP0355"
)

// Code describes a code for the documentation.
type Code struct {
	Code, Title string
	// Explanation says why it matters and what to do; empty where the title says all.
	Explanation string
	Warning     bool
}

// Codes returns all codes that [Load] gives, those of expressions too, in order.
func Codes() []Code {
	codes := slices.Clone(fileCodes)
	for _, c := range expression.Codes() {
		codes = append(codes, Code{Code: c.Code, Title: c.Title, Warning: c.Warning})
	}
	return append(codes, rowCodes...)
}

// rowCodes are those of row patterns.
var rowCodes = []Code{
	{codeRow, "The pattern cannot be read.", "A pattern is a regular expression over the names of steps: `a b+ (c | d)? PERMUTE(e, f) {- g -}`, with `* + ? {n} {n,} {n,m} {,m}` and a `?` behind one that is reluctant.", false},
	{codeRowSteps, "The pattern and its steps do not fit together.", "Each step that the pattern names stands under `steps`, and each of these is in the pattern.", false},
	{codeRowWord, "The word has no meaning beside a pattern.", "Matches of a pattern follow each other: there is nothing to hold back, and the next start depends on the match.", false},
	{codeRowGreedy, "A greedy loop over a step without a condition stands before another step.", "It takes every event and gives back what the rest needs, so only the end of the window decides.", true},
	{codeRowAfter, "`to_first` of a step that can only be first.", "", true},
	{codeRowBlank, "The pattern prefers to match nothing.", "A start whose preferred way takes no event gives nothing.", true},
	{codeRowLoop, "An unbounded loop over something that can take nothing.", "", true},
	{codeRowHidden, "An alternative at the end that is never reached.", "Of `a | a b` the first is complete at once.", true},
}

var fileCodes = []Code{
	{codeSyntax, "The file is not YAML.", "What stands behind the mistake in the same file is not looked at.", false},
	{
		codeField, "Unknown field name.",
		"No event in the rule's tests has the field, but one has a field of nearly the same name, or a step, list, map or macro has. Fields have no schema, so the tests are the only witness; without tests this is said where a step, a list or a macro is usual, of `len(smal)`, `user in admins` or `is_admin and …`.", true,
	},
	{codeUnknownKey, "The language has no such key in this place.", "Keys that other tools have are told with what they are here.", false},
	{codeDuplicateKey, "A key stands twice in one map.", "", false},
	{codeTag, "YAML tags are not allowed.", "Values are read as text, and each key knows what it expects.", false},
	{codeAlias, "YAML anchors, aliases and merge keys are not allowed.", "A few lines of aliases can grow to gigabytes. Conditions that several rules share are `macros`, keys that they share are `defaults`.", false},
	{codeTooLarge, "The file is too large, or nested too deeply.", "At most 1 MiB, some 150,000 nodes and 64 levels. Long lists belong into a CSV file.", false},
	{
		codeQuotes, "An expression needs quotes.",
		"Inside `{ }` and `[ ]` YAML ends a value at a comma and at a bracket; it reads `: ` as the end of a key and a leading `!` as a tag. The hint shows the line with the quotes, and with what the expression needs itself: `e[\"@timestamp\"]`, a backslash twice.", false,
	},
	{codeNull, "A key has no value.", "Leave the key out where nothing is meant: an empty `where` would let every event pass.", false},
	{codeShape, "A value has the wrong shape.", "A list where a text is expected, a text where a map is expected, and so on.", false},
	{codeMissing, "A required key is missing.", "", false},
	{codeTooMuch, "The rule is more than cepd can run.", "A row pattern is written out for the machine: repetitions inside of repetitions multiply.", false},
	{codeVersion, "The file is of another version of the language.", "", false},
	{codeEncoding, "The file is not clean UTF-8.", "", false},
	{codeDuration, "Not a duration.", "Durations are whole numbers with `ms`, `s`, `m`, `h`, `d` or `w`, also combined: `1h30m`. Most of them must be longer than 0.", false},
	{codeNumber, "Not a whole number, or one out of bounds.", "", false},
	{codeBool, "Not `true` or `false`.", "", false},
	{codeWord, "Not one of the words that are possible here.", "", false},
	{codeTime, "Not a date or time.", "A date means 00:00 UTC; times are RFC 3339, with a zone.", false},
	{codeID, "The id of a rule or silence has a wrong shape.", "Ids begin with a small letter or digit, go on with small letters, digits, `.`, `_` and `-`, have at most 128 characters and no two dots in a row.", false},
	{codeDuplicateID, "Two rules have one id.", "Ids are part of every alert id, so they are unique over all files.", false},
	{codeName, "A name has a wrong shape, or means something else.", "Names of steps, lists, maps, macros and alert fields are letters, digits and `_`. `e`, `event`, `match`, `duration`, `taken` and `prev` have a meaning of their own.", false},
	{codeDuplicate, "A name is given twice.", "Names of steps and absences are unique in a rule; names of lists, maps and macros and ids of silences over all files, and none of these names is also that of a key part.", false},
	{codeMitre, "Not the shape of a MITRE ATT&CK id.", "Techniques look like `T1110` or `T1110.001`, tactics like `TA0006`.", false},
	{codeTableFile, "The file of a list or map cannot be read.", "", false},
	{codeTableValue, "A value that cannot stand in a list, a map or a recorded event.", "", false},
	{codeFrom, "It is not said which stream to read, or the name of a stream has a wrong shape.", "", false},
	{codeBy, "The keys of the rule and of its elements do not fit together.", "An element's own `by` gives all parts of the rule's key: a map by name, a list by position. A rule without `by` takes them from its elements, which then all have one.", false},
	{codeEmpty, "A sequence without elements.", "Leave `sequence` out for a rule about single events.", false},
	{codeElement, "Not an element of a sequence.", "An element is a map with the key `step` or `absent`.", false},
	{codeElementKey, "The key has no meaning on this element.", "`loop` and `loop_within` need `times`; absences have `for` instead of `within`.", false},
	{codeTimes, "Not a number of times.", "`5` is exactly five, `5..` five or more, `3..10` three to ten, `0..` any number.", false},
	{codeContiguity, "`contiguity` has no meaning in this place.", "The first step of a rule stands behind nothing, and an absence is not taken.", false},
	{codeFirstWithin, "`within` on the first step.", "It bounds the time to the event taken before, and there is none.", false},
	{codeHold, "`for` or `from_start` has no meaning in this place.", "`for` is the length of an absence at the start or the end of a sequence; between two elements the absence holds until the next one. `from_start` belongs to an absence at the start.", false},
	{codeHoldMissing, "An absence that does not say how long.", "At the start an absence needs `for`; at the end `for` or the rule's `within`, unless its contiguity is strict.", false},
	{codeAbsencePlace, "An absence behind optional steps only.", "It would stand at the start of some matches and between elements of others.", false},
	{codeAbsenceTail, "Everything behind an absence is optional.", "The match would be complete before the absence can be judged.", false},
	{codeNothing, "The rule could match no event at all.", "At least one step must not be optional.", false},
	{codeNoWindow, "No window.", "Without `within` every open start is kept for ever. Write `within`, bound every gap by a step's `within` or `for`, or say `unbounded: true`.", false},
	{codeGap, "A gap that is longer than the window of the rule.", "It could never be used up.", false},
	{codeUnbounded, "`unbounded: true` beside `within`.", "", false},
	{codeTooMany, "Too many of something.", "A rule has at most 63 steps and absences, 16 key parts, 256 alert fields and 1,000 exceptions; a set of rules at most 1,000 silences.", false},
	{codeAfter, "`after_match` names no step of the rule.", "", false},
	{codeSteps, "An exception names no element of the rule.", "", false},
	{codeSuppress, "`suppress` names neither an alert field nor a part of the key.", "", false},
	{codeTest, "A mistake in a test.", "", false},
	{codeMore, "There are more mistakes than are shown.", "At most 200 errors and 200 warnings of one file are shown.", false},
	{codeUntil, "`until` on something that has an upper bound.", "It ends a loop or group that would go on for ever otherwise: `times: 3..`.", false},
	{codeMembers, "The parts of an `all_of` or `any_of` are not what they can be.", "An `all_of` has 2 to 8 single steps, or any_of of single steps; conditions that name siblings stand in the `where` of the `all_of`. An `any_of` has two alternatives or more.", false},
	{codeHoldPlace, "A `hold` that does not stand last in the rule.", "", false},
	{codeFirstSeen, "The condition of a step with `first_seen` asks what was taken.", "Whether an event is the first of its kind does not depend on a match.", false},
	{codeNewest, "`keep: newest` in a rule for which it has no meaning.", "It is for sequences of single steps that are relaxed: no loops, absences, optional steps or composites.", false},
	{codeKeys, "`keys` in a rule for which it has no meaning, or that do not fit the key.", "It is for an absence alone: keys that count as present from the beginning.", false},
	{codeOverride, "An override of a rule that is not there, or two that want different things.", "", false},
	{codeCycle, "Rules read each other's alerts in a circle.", "", false},
	{codeResolve, "What happens to an open alert does not fit together.", "`while_open` and `repeat` need `resolve`, and `resolve` needs `where` or `quiet`.", false},
	{codeSilence, "A silence that can silence nothing.", "It ends before it begins, names no rule, or asks for a part that the key of its rule does not have.", false},
	{codeNoKey, "No key.", "Without `by` all events of the world are one sequence: a failure of one user is followed by a success of another.", true},
	{codeStepField, "A step is named like a field.", "In conditions the name means the field in some places and the step in others.", true},
	{codeAnyLoop, "A loop that takes `any` without an upper bound.", "With n events that fit it has 2^n candidates.", true},
	{codeAny, "`contiguity: any` keeps waiting after it has taken an event.", "Every event that fits is another candidate. It is right where each pair is wanted, and costs accordingly.", true},
	{codeTail, "A last step that can never be longer than its minimum.", "The first match takes its start with it, so an open loop or optional step at the end stops at its shortest.", true},
	{
		codeNever, "A condition can never hold, or a step never be reached.",
		"The condition contradicts itself, the rule's `where`, what the key or `times` sees to, or the limits of the rule are lower than what it must take. It is said only where it is certain, whatever the events are.", true,
	},
	{codeNoTimeout, "`on_timeout: emit` in a rule in which nothing times out.", "", true},
	{codeTestStream, "A test sends events to a stream that the rule does not read.", "", true},
	{codeGreedy, "A step may fit what the greedy loop before it takes.", "A greedy loop gives nothing back: an event that fits both is always the loop's, and the step is never reached.", true},
	{codeGreedyLast, "`greedy` on the last element changes nothing.", "", true},
	{codeState, "The rule's state is large by nature.", "Every value of the time it looks back over is kept, for each key.", true},
	{codeNoRule, "A condition names a rule whose alerts do not exist.", "", true},
	{codeSilenceless, "A silence is for a rule that is not there.", "Rules come and go, and a silence that was left behind keeps nothing else from running. Remove it, or mend the id.", true},
	{codeHidden, "An exception hides every event.", "What the rule, or a step, asks of an event is enough for the exception too, so nothing is left.", true},
	{codeTestFile, "A test plays or loads a file that cannot be read.", "The rule runs, the test does not: `cepd test` says that it failed.", true},
	{codeAfterAbsence, "`after_match` goes on from an absence.", "An absence takes no event, so nothing is skipped.", true},
}
