package patterns

// keyTable says which keys a map of the language has: what `cepd schema rule` is made of. A test holds the tables against
// what the reader takes.
type keyTable struct {
	// what is the map as messages call it, def its name in the schema.
	what, def string
	keys      []keyRow
	// oneOf are keys of which exactly one stands there.
	oneOf []string
}

// keyRow is a key: what it means, and the shape of its value.
type keyRow struct {
	name, about string
	value       shape
	required    bool
}

// shape is a schema of JSON.
type shape map[string]any

func ref(def string) shape { return shape{"$ref": "#/$defs/" + def} }

func anyOf(shapes ...shape) shape { return shape{"anyOf": shapes} }

func listOf(item shape) shape { return shape{"type": "array", "items": item} }

// oneOrMany is a value, or a list of such.
func oneOrMany(item shape) shape { return anyOf(item, listOf(item)) }

// mapOf is a map of names that the user chooses.
func mapOf(value shape) shape { return shape{"type": "object", "additionalProperties": value} }

func wordsOf(words ...string) shape { return shape{"enum": words} }

// The scalars. Everything is read as text, so that a number, or true, may stand where a text does.
var (
	shapeText       = shape{"type": []string{"string", "number", "boolean"}}
	shapeExpression = ref("expression")
	shapeDuration   = ref("duration")
	shapeForever    = anyOf(ref("duration"), wordsOf("forever"))
	shapeNumber     = ref("number")
	shapeBool       = ref("bool")
	shapeMoment     = ref("moment")
	shapeSize       = anyOf(shape{"type": "integer", "minimum": 0}, shape{"type": "string", "pattern": `^[0-9]+ ?([kMGT]?B|[KMGT]iB)?$`})
	shapeName       = shape{"type": []string{"string", "boolean"}, "pattern": nameShape.String()}
	shapeStream     = shape{"type": []string{"string", "number", "boolean"}, "pattern": streamShape.String()}
	shapeID         = shape{"type": []string{"string", "number", "boolean"}, "pattern": idShape.String()}
	shapeBy         = ref("by")
)

// shapes are the definitions that are no maps of keys.
var shapes = map[string]shape{
	"expression": {"type": []string{"string", "number", "boolean"}, "description": "An expression: docs/expressions.md. It needs quotes where it holds a comma, a bracket or \": \" inside of { } or [ ], and where it begins with !."},
	"duration":   {"type": "string", "pattern": `^([0-9]+(ms|[smhdw]))+$`, "description": "A duration: whole numbers with ms, s, m, h, d or w, as 90s or 1h30m."},
	"number":     anyOf(shape{"type": "integer", "minimum": 0}, shape{"type": "string", "pattern": `^[0-9]+$`}),
	"bool":       {"enum": []any{true, false, "true", "false"}},
	"moment":     {"type": "string", "pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}(T.*)?$`, "description": "A date, which means 00:00 UTC, or a time as RFC 3339: 2027-06-30, 2027-06-30T12:00:00Z."},
	"times":      anyOf(shape{"type": "integer", "minimum": 1}, shape{"type": "string", "pattern": `^[0-9]+(\.\.([0-9]+)?)?$`}),
	"by": anyOf(
		shape{"type": "array", "items": shapeExpression, "minItems": 1, "maxItems": maxKeyParts},
		shape{"type": "object", "additionalProperties": shapeExpression, "minProperties": 1, "maxProperties": maxKeyParts},
	),
	"steps":    mapOf(ref("pattern_step")),
	"sequence": {"type": "array", "items": ref("element"), "minItems": 1},
	"list":     anyOf(listOf(shapeText), ref("list_file")),
	"map": anyOf(ref("map_file"), shape{
		"type": "object", "additionalProperties": shapeText, "not": shape{"required": []string{"file"}},
	}),
	"keys": anyOf(shape{"type": "string", "pattern": `^\$`}, listOf(oneOrMany(shapeText))),
}

var linkWords = wordsOf("relaxed", "strict", "any")

// ruleRows are the keys of a rule but its id: defaults, overrides and rules have them.
var ruleRows = []keyRow{
	{"name", "What people call the rule.", shapeText, false},
	{"description", "What the rule finds, for people.", shapeText, false},
	{"status", "How far the rule can be trusted.", wordsOf(statuses...), false},
	{"references", "Where to read more.", oneOrMany(shapeText), false},
	{"authors", "Who wrote the rule.", oneOrMany(shapeText), false},
	{"falsepositives", "What the rule finds that is none of it.", oneOrMany(shapeText), false},
	{"revision", "A number that the author raises; alerts carry it. Default: 1.", shapeNumber, false},
	{"enabled", "false: the rule is checked and does not run. Default: true.", shapeBool, false},
	{"severity", "How bad it is. Default: info.", wordsOf(severities...), false},
	{"tags", "Free words, which alerts carry.", listOf(shapeText), false},
	{"mitre", "Techniques and tactics of MITRE ATT&CK: T1110, T1110.001, TA0006.", listOf(shape{"type": "string", "pattern": mitreShape.String()}), false},
	{"from", "The stream, or a list of streams. An element may name its own. \"alerts\" is the stream of other rules' alerts.", oneOrMany(shapeStream), false},
	{"where", "An event for which this is not true does not exist for the rule.", shapeExpression, false},
	{"by", "The key: [user, src_ip], or with names {user: requestParameters.userName}. Default: one key for all events.", shapeBy, false},
	{"within", "The longest time from the first to the last event of a match, inclusive.", shapeDuration, false},
	{"unbounded", "true: no window is wanted. Default: false.", shapeBool, false},
	{"sequence", "The elements, in order; or pattern and steps. Default: each visible event is a match.", ref("sequence"), false},
	{"pattern", "A regular expression over the names of steps: start down{2,} up{2,}.", shapeText, false},
	{"steps", "The steps of the pattern, by name.", ref("steps"), false},
	{"after_match", "What a match takes with it. Default: past_last.", anyOf(wordsOf("past_last", "to_next", "none"), ref("after_match")), false},
	{"emit", "eager: a match goes out at once; ordered: not while an earlier start is open. Default: eager.", wordsOf("eager", "ordered"), false},
	{"on_timeout", "emit: a start whose window ends goes out as an alert of kind timeout. Default: drop.", wordsOf("drop", "emit"), false},
	{"on_change", "What an edit of the rule's meaning does to open starts. Default: drain.", wordsOf("drain", "drop"), false},
	{"exceptions", "Events for which one of these is true are invisible to the rule, or to some of its steps.", listOf(ref("exception")), false},
	{"limits", "Bounds of what the rule may hold.", ref("limits"), false},
	{"without", "No such event from the first event of a match to its completion.", listOf(ref("without")), false},
	{"keep", "newest: of what has come equally far only the latest goes on. Default: all.", wordsOf("all", "newest"), false},
	{"mode", "shadow: the rule runs and counts, and delivers nothing. Default: alert.", wordsOf("alert", "shadow"), false},
	{"keys", "Keys that count as present from the beginning, for an absence alone: $devices, or a list.", ref("keys"), false},
	{"alert", "What the alerts of the rule look like, and how they live.", ref("alert"), false},
	{"tests", "Tests, which `cepd test` runs.", listOf(ref("test")), false},
}

var idRow = keyRow{"id", "The name that programs know the rule by: unique over all files, and part of the id of every alert.", shapeID, true}

// elementRows say of each key of [elementKeys] what it means.
var elementRows = map[string]keyRow{
	"where":       {"", "What must be true of the event. Left out: every visible event.", shapeExpression, false},
	"from":        {"", "The stream, or streams, that the element takes events from. Default: the rule's.", oneOrMany(shapeStream), false},
	"by":          {"", "The key's parts in these events. Default: the rule's.", shapeBy, false},
	"contiguity":  {"", "How the element is tied to the one before. relaxed skips what does not fit; strict: the very next visible event; any also goes on waiting. Default: relaxed.", linkWords, false},
	"times":       {"", "How often: 5, 5.., 3..10, 0... Default: 1.", ref("times"), false},
	"loop":        {"", "contiguity between the events of a loop, or between repetitions. Default: relaxed.", linkWords, false},
	"optional":    {"", "true: a match may do without it. Default: false.", shapeBool, false},
	"within":      {"", "On a step: the longest time to the event taken before. On a composite: from its first to its last event.", shapeDuration, false},
	"loop_within": {"", "The longest time between two events of the loop. Default: the step's within.", shapeDuration, false},
	"for":         {"", "How long it must hold.", shapeForever, false},
	"from_start":  {"", "true: what lies before the first event of all counts as empty, not as unknown. Default: false.", shapeBool, false},
	"greedy":      {"", "true: an event that the loop could take is the loop's, and it gives nothing back. Default: false.", shapeBool, false},
	"until":       {"", "An event for which this is true ends the loop, which does not take it.", shapeExpression, false},
	"having":      {"", "The loop may be left only where this is true of what it took: sum(tx, .amount) > 10000.", shapeExpression, false},
	"distinct":    {"", "The loop counts different values of this instead of events.", shapeExpression, false},
	"first_seen":  {"", "Only an event the like of which the step has not seen for a time.", ref("first_seen"), false},
	"at_least":    {"", "How many of the members are enough. Default: all.", shapeNumber, false},
}

// kindRows say what the word means that an element begins with.
var kindRows = map[elementKind]keyRow{
	kindStep:   {"step", "One event, or with times a loop; the value is its name.", shapeName, true},
	kindAbsent: {"absent", "An event that must not happen; the value is its name.", shapeName, true},
	kindHold:   {"hold", "Last only: where becomes true and stays so for the time that for says. The value is its name.", shapeName, true},
	kindAllOf:  {"all_of", "Each of these steps once, in any order.", shape{"type": "array", "items": ref("element"), "minItems": 2}, true},
	kindAnyOf:  {"any_of", "One of these elements, or lists of elements.", shape{"type": "array", "items": anyOf(ref("element"), ref("sequence")), "minItems": 2}, true},
	kindGroup:  {"group", "A part of the sequence, which may be repeated.", ref("sequence"), true},
}

// keyTables are all maps of the language but those of elements, which [elementKeys] lists.
var keyTables = []keyTable{
	{what: "a rule file", def: "file", keys: []keyRow{
		{"version", "The version of the rule language.", shape{"enum": []any{1, "1"}}, true},
		{"rules", "The rules.", listOf(ref("rule")), false},
		{"lists", "Constant sets, for `x in $name`.", mapOf(ref("list")), false},
		{"maps", "Constant tables, for `lookup($name, x)`.", mapOf(ref("map")), false},
		{"macros", "Conditions that several rules share, used as `$name`.", mapOf(shapeExpression), false},
		{"defaults", "Keys for all rules of the document that do not have them.", ref("defaults"), false},
		{"overrides", "Changes to rules of other files.", listOf(ref("override")), false},
		{"silences", "Alerts that are not sent for a time.", listOf(ref("silence")), false},
	}},
	{what: "a rule", def: "rule", keys: append([]keyRow{idRow}, ruleRows...)},
	{what: "defaults", def: "defaults", keys: append([]keyRow{
		{"contiguity", "contiguity of all elements that say nothing.", linkWords, false},
		{"loop", "loop of all loops that say nothing.", linkWords, false},
	}, ruleRows...)},
	{what: `"set"`, def: "set", keys: ruleRows},
	{what: `"append"`, def: "append", keys: ruleRows},
	{what: "an override", def: "override", keys: []keyRow{
		{"rule", "The id of the rule, in any file.", shapeID, true},
		{"set", "Keys that take the place of the rule's.", ref("set"), false},
		{"append", "Entries that come behind the rule's own.", ref("append"), false},
	}},
	{what: "a silence", def: "silence", keys: []keyRow{
		{"id", "The name of the silence: unique over all files.", shapeID, true},
		{"rule", "The rule, or rules; * and ? stand for any characters and for one.", oneOrMany(shapeText), true},
		{"key", "Parts of the key that an alert must have. Left out: every alert of the rules.", mapOf(shapeText), false},
		{"from", "When it begins, in event time.", shapeMoment, false},
		{"until", "When it ends, in event time.", shapeMoment, true},
		{"comment", "Why, for people.", shapeText, false},
	}},
	{what: "a file of lists", def: "list_file", keys: []keyRow{
		{"file", "A CSV file, relative to the rule file. Its first line names the columns.", shapeText, true},
		{"column", "The column of the values.", shapeText, true},
	}},
	{what: "a file of maps", def: "map_file", keys: []keyRow{
		{"file", "A CSV file, relative to the rule file. Its first line names the columns.", shapeText, true},
		{"key", "The column of what is looked up.", shapeText, true},
		{"value", "The column of what is found.", shapeText, true},
	}},
	{what: `"after_match"`, def: "after_match", oneOf: []string{"to_first", "to_last"}, keys: []keyRow{
		{"to_first", "Go on from the first event of this step.", shapeName, false},
		{"to_last", "Go on from the last event of this step.", shapeName, false},
	}},
	{what: "an exception", def: "exception", keys: []keyRow{
		{"name", "What people call the exception.", shapeText, true},
		{"where", "The events that it hides.", shapeExpression, true},
		{"expires", "When it ends, in event time.", shapeMoment, false},
		{"steps", "The steps that it hides the events from. Default: all, so that the events do not exist.", listOf(shapeName), false},
	}},
	{what: `"limits"`, def: "limits", keys: []keyRow{
		{"starts_per_key", "How many starts of a key may be open. Default: 10000.", shapeNumber, false},
		{"events_per_match", "How many events a match may hold. Default: 10000.", shapeNumber, false},
		{"on_limit", "What becomes of a start too many. Default: refuse.", wordsOf("refuse", "drop_oldest"), false},
		{"keys_max", "How many keys the rule may hold, at least 256.", shapeNumber, false},
		{"state_bytes", "How much memory the rule may take, by estimate: 64MiB.", shapeSize, false},
	}},
	{what: `"alert"`, def: "alert", keys: []keyRow{
		{"title", "A text with {{expressions}}. Default: the name of the rule, or its id.", shapeText, false},
		{"severity", "An expression that gives a severity, or one of the words. Default: the rule's.", shapeExpression, false},
		{"include_events", "How much of the events an alert carries. Default: ids.", wordsOf(includeWords...), false},
		{"to", "The sinks. Default: all.", oneOrMany(shapeStream), false},
		{"fields", "What the alert carries: names and expressions, as {user: ok.user, fails: len(fail)}.", mapOf(shapeExpression), false},
		{"resolve", "When an open alert is over. Left out: alerts are never open.", ref("resolve"), false},
		{"while_open", "What a match does while an alert is open. Default: count.", wordsOf("count", "update", "new"), false},
		{"repeat", "How often a reminder goes out while an alert is open.", shapeDuration, false},
		{"suppress", "How many alerts may go out.", ref("suppress"), false},
	}},
	{what: `"suppress"`, def: "suppress", keys: []keyRow{
		{"by", "Alert fields or key parts that alerts have in common. Default: the key.", listOf(shapeText), false},
		{"for", "How long others are counted, and not sent.", shapeDuration, true},
		{"max", "How many go out before. Default: 1.", shapeNumber, false},
	}},
	{what: `an entry of "without"`, def: "without", keys: []keyRow{
		{"name", "Its name.", shapeName, true},
		{"where", "What must be true of the event.", shapeExpression, false},
		{"from", "Its streams. Default: the rule's.", oneOrMany(shapeStream), false},
		{"by", "The key's parts in these events. Default: the rule's.", shapeBy, false},
	}},
	{what: `"resolve"`, def: "resolve", keys: []keyRow{
		{"where", "An event of the key for which this is true ends it.", shapeExpression, false},
		{"quiet", "The time without a match that ends it.", shapeDuration, false},
		{"from", "The streams of these events. Default: the rule's.", oneOrMany(shapeStream), false},
		{"by", "The key's parts in these events. Default: the rule's.", shapeBy, false},
	}},
	{what: "a step of a pattern", def: "pattern_step", keys: []keyRow{
		{"where", "What must be true of the event. Left out: every visible event.", shapeExpression, false},
		{"from", "The streams. Default: the rule's.", oneOrMany(shapeStream), false},
		{"by", "The key's parts in these events. Default: the rule's.", shapeBy, false},
	}},
	{what: `"first_seen"`, def: "first_seen", keys: []keyRow{
		{"by", "The values that make an event like another.", listOf(shapeExpression), true},
		{"for", "How far it looks back; forever needs from_start.", shapeForever, true},
		{"from_start", "true: what lies before the first event of all counts as empty, not as unknown. Default: false.", shapeBool, false},
	}},
	{what: "a test", def: "test", keys: []keyRow{
		{"name", "What the test is about.", shapeText, true},
		{"lateness", "How far events may go back in time. Default: 0s.", shapeDuration, false},
		{"events", "What happens, in order of arrival.", listOf(ref("test_entry")), true},
		{"expect", "What comes of it.", ref("expect"), true},
	}},
	{what: `an entry of "events"`, def: "test_entry", oneOf: testEntries, keys: []keyRow{
		{"at", "When, from the beginning of the test.", shapeDuration, false},
		{"times", "How often the event comes. Default: 1.", shapeNumber, false},
		{"every", "The time between two of them.", shapeDuration, false},
		{"from", "The stream. Default: the first of the rule.", shapeStream, false},
		{"event", "An event: its fields.", shape{"type": "object"}, false},
		{"file", "A recorded stream, relative to the rule file.", shapeText, false},
		{"advance", "Moves time on.", shapeDuration, false},
		{"idle", "A time in which nothing arrives.", shapeDuration, false},
		{"reload", "A rule file that takes the place of this one, relative to it.", shapeText, false},
		{"restart", "true: the service stops and starts again.", shapeBool, false},
	}},
	{what: `"expect"`, def: "expect", oneOf: []string{"alerts", "count"}, keys: []keyRow{
		{"count", "The number of alerts.", shapeNumber, false},
		{"alerts", "All alerts of the rule, in order; [] for none.", listOf(ref("expected_alert")), false},
	}},
	{what: "an expected alert", def: "expected_alert", keys: []keyRow{
		{"at", "When it goes out, from the beginning of the test.", shapeDuration, false},
		{"kind", "Its kind.", wordsOf("match", "timeout", "update", "reminder", "resolved"), false},
		{"fields", "Some of its fields.", shape{"type": "object"}, false},
	}},
}
