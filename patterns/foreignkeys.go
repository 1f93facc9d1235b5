package patterns

import (
	"slices"
	"strings"
)

// foreignKeys are keys of other tools, in small letters and without - and _, by the keys of this language that mean them.
// Which of these is meant depends on the map: a threshold is the `times` of a step.
var foreignKeys = map[string][]string{
	"within":     {"window", "timeframe", "maxspan", "timewindow", "timespan", "span", "interval", "period", "timeout", "duration"},
	"where":      {"condition", "conditions", "filter", "filters", "query", "selection", "when", "match", "criteria", "expression", "search", "predicate", "if"},
	"from":       {"stream", "streams", "source", "sources", "index", "topic", "topics", "table", "input", "inputs", "logsource", "datasource"},
	"by":         {"key", "groupby", "partitionby", "querykey", "joinkey", "correlateby", "aggregateby", "entity", "partition"},
	"severity":   {"level", "priority", "risk", "criticality"},
	"times":      {"count", "threshold", "numevents", "runs", "repeat", "repetitions", "quantifier", "occurrences", "mincount", "atleastcount"},
	"distinct":   {"unique", "cardinality", "distinctcount", "fieldcount"},
	"exceptions": {"exclude", "excludes", "exclusions", "unless", "whitelist", "allowlist", "suppressions", "notwhere"},
	"mitre":      {"attack", "mitreattack", "techniques", "threat", "tactics"},
	"suppress":   {"throttle", "cooldown", "dedup", "dedupe", "deduplication", "realert", "suppression"},
	"fields":     {"measures", "output", "outputs", "columns", "select", "extra"},
	"title":      {"message", "summary", "subject", "text"},
	"to":         {"sinks", "destinations", "sendto", "actions", "notify", "outputto"},
	"steps":      {"define", "symbols"},
	"name":       {"title", "rulename", "displayname"},
	"sequence":   {"events", "stages"},
	"until":      {"while", "stop", "stopwhen"},
	"optional":   {"maybe"},
	"enabled":    {"disabled", "active"},
	"step":       {"event", "name", "state"},
	"absent":     {"not", "never", "no", "without", "missing", "negate"},
	"all_of":     {"and", "all", "permute", "anyorder"},
	"any_of":     {"or", "any", "oneof", "choice"},
}

// foreignHints say what is written for keys that no key of the map stands for.
var foreignHints = map[string]string{
	"detection": `a condition is an expression: where: EventID == 4625 and outcome == "failure"`,
	"message":   `the title of an alert is alert: {title: "…"}`,
	"measures":  "what an alert shows is alert: {fields: {name: expression}}",
	"output":    "what an alert shows is alert: {fields: {name: expression}}",
	"select":    "what an alert shows is alert: {fields: {name: expression}}",
	"throttle":  "alert: {suppress: {for: 1h}} holds back what repeats",
	"having":    `"having" belongs to a step with "times"`,
	"count":     `how often is the "times" of a step: sequence: [{step: a, times: 5..}]`,
	"threshold": `how often is the "times" of a step: sequence: [{step: a, times: 5..}]`,
	"numevents": `how often is the "times" of a step: sequence: [{step: a, times: 5..}]`,
	"orderby":   "events are seen in the order of their times",
	"type":      "what a rule is, its sequence says: leave it out",
	"groupby":   "what alerts must share to be held back is suppress: {by: [field], for: 1h}",
}

// foreignKey returns the key of the language that a key of another tool stands for in a map, or "", and what to write.
func foreignKey(what, key string, known keys) (meant, hint string) {
	plain := strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(key))
	for _, name := range known.names() {
		if slices.Contains(foreignKeys[name], plain) {
			return name, "write " + name
		}
	}
	if hint := foreignHints[plain]; hint != "" {
		return "", hint
	}
	if what != "a rule file" {
		return "", ""
	}
	const below = `what belongs to a rule stands in the list below "rules"`
	for _, k := range ruleRows {
		switch {
		case k.name == key:
			return "", below
		case slices.Contains(foreignKeys[k.name], plain):
			return "", below + ", and is " + k.name + " there"
		}
	}
	return "", either(key == idRow.name, below, "")
}

// isLanguageKey reports whether a word is a key somewhere in the language.
func isLanguageKey(word string) bool {
	is := func(k keyRow) bool { return k.name == word }
	return slices.ContainsFunc(keyTables, func(t keyTable) bool { return slices.ContainsFunc(t.keys, is) }) ||
		slices.ContainsFunc(elementKeys, func(k elementKey) bool { return k.name == word }) ||
		slices.Contains(elementKinds, elementKind(word))
}
