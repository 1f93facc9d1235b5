package patterns

import (
	"maps"
	"slices"
)

// Schema returns the JSON Schema (2020-12) of rule files, made of the tables of keys, for editors and other tools. It knows
// shapes and words; what [Load] says beyond that no schema can say.
func Schema() map[string]any {
	defs := map[string]any{}
	for name, s := range shapes {
		defs[name] = s
	}
	for _, t := range keyTables {
		defs[t.def] = t.shape()
	}
	elements := make([]shape, len(elementKinds))
	for i, kind := range elementKinds {
		t := keyTable{keys: []keyRow{kindRows[kind]}}
		for _, key := range elementKeys {
			if slices.Contains(key.on, kind) {
				row := elementRows[key.name]
				row.name = key.name
				t.keys = append(t.keys, row)
			}
		}
		defs[string(kind)] = t.shape()
		elements[i] = ref(string(kind))
	}
	defs["element"] = shape{"anyOf": elements}
	root := maps.Clone(defs["file"].(shape))
	delete(defs, "file")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "cepd rules"
	root["description"] = "A file of rules for cepd, version 1 of the language. docs/rules.md says the same in words."
	root["$defs"] = defs
	return root
}

// SchemaID is where the schema of rule files can be read.
const SchemaID = "https://raw.githubusercontent.com/cepd/cepd/main/docs/format/rule.schema.json"

// shape is the schema of a map of keys: others are not known.
func (t *keyTable) shape() shape {
	properties := map[string]any{}
	var required []string
	for _, k := range t.keys {
		value := maps.Clone(k.value)
		value["description"] = k.about
		properties[k.name] = value
		if k.required {
			required = append(required, k.name)
		}
	}
	s := shape{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		s["required"] = required
	}
	if t.oneOf != nil {
		forms := make([]shape, len(t.oneOf))
		for i, name := range t.oneOf {
			forms[i] = shape{"required": []string{name}}
		}
		s["oneOf"] = forms
	}
	return s
}
