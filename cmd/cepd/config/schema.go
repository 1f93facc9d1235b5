package config

import "strings"

// SchemaID is where the schema of configurations can be read.
const SchemaID = "https://raw.githubusercontent.com/cepd/cepd/main/docs/format/config.schema.json"

// shape is a schema of JSON.
type shape map[string]any

// Schema returns the JSON Schema (2020-12) of configurations, made of the table of settings, for editors and other tools. It
// knows shapes and words; what [Parse] says beyond that no schema can say.
func Schema() map[string]any {
	c := defaults("")
	root := c.settings().shape()
	properties := root["properties"].(map[string]any)
	properties["version"] = shape{"enum": []any{1, "1"}, "description": "The version of the configuration."}
	required, _ := root["required"].([]string)
	root["required"] = append([]string{"version"}, required...)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "cepd configuration"
	root["description"] = "The configuration of a job of cepd. docs/configuration.md says the same in words."
	return root
}

// shape is the schema of a map of settings: others are not known.
func (settings section) shape() shape {
	properties := map[string]any{}
	var required []string
	s := shape{"type": "object", "properties": properties, "additionalProperties": false}
	for i := range settings {
		row := &settings[i]
		about := row.about
		var value shape
		switch v := row.value.(type) {
		case *scalar:
			if v.secret {
				continue // in the environment alone
			}
			value = v.shape()
			if v.bounds != "" {
				about += " " + v.bounds + "."
			}
			if usual := v.get(); usual != "" && !row.required && !v.path {
				about += " Default: " + usual + "."
			}
		case *list:
			item := v.shape()
			value = shape{"anyOf": []shape{item, {"type": "array", "items": item}}}
		case *pairs:
			value = shape{"type": "object", "additionalProperties": shapeText()}
		case section:
			value = v.shape()
		case *named:
			value = shape{"type": "object", "additionalProperties": v.sample().shape(), "minProperties": 1}
		case *choice:
			if row.name == "" {
				v.beside(s)
				continue
			}
			value = v.shape()
		}
		value["description"] = about
		properties[row.name] = value
		if row.required {
			required = append(required, row.name)
		}
	}
	if required != nil {
		s["required"] = required
	}
	return s
}

// shape is the schema of a map with one of several keys.
func (c *choice) shape() shape {
	s := shape{"type": "object", "properties": map[string]any{}, "additionalProperties": false}
	c.beside(s)
	return s
}

// beside adds the keys of which one must stand among others.
func (c *choice) beside(s shape) {
	one := make([]shape, len(c.options))
	for i, o := range c.options {
		value := o.make().shape()
		value["description"] = o.about
		s["properties"].(map[string]any)[o.name] = value
		one[i] = shape{"required": []string{o.name}}
	}
	s["oneOf"] = one
}

// shape is the schema of an entry.
func (l *list) shape() shape {
	if !strings.HasSuffix(l.what, "list of numbers and ranges") {
		return shapeText()
	}
	words := (&scalar{what: strings.TrimSuffix(l.what, ", or list of numbers and ranges")}).shape()
	return shape{"anyOf": []shape{words, {"type": "integer"}, {"type": "string", "pattern": `^[0-9]+( *- *[0-9]+)?( *, *[0-9]+( *- *[0-9]+)?)*$`}}}
}

// shapeText is any single value: all of them are read as text.
func shapeText() shape { return shape{"type": []string{"string", "number", "boolean"}} }

// shape is the schema of a value: what it is stands in the words that the documentation uses, each form behind an "or".
func (s *scalar) shape() shape {
	var forms []shape
	for what := range strings.SplitSeq(s.what, ", or ") {
		switch {
		case what == "duration":
			forms = append(forms, shape{"type": "string", "pattern": `^([0-9]+(ms|[smhdw]))+$`})
		case what == "number":
			forms = append(forms, shape{"type": "integer"}, shape{"type": "string", "pattern": `^[0-9]+$`})
		case what == "size":
			forms = append(forms, shape{"type": "string", "pattern": `^[0-9]+(B|KiB|MiB|GiB|TiB)$`})
		case what == "true or false":
			forms = append(forms, shape{"enum": []any{true, false, "true", "false"}})
		case strings.HasPrefix(what, "`"):
			forms = append(forms, shape{"enum": strings.Split(strings.Trim(what, "`"), "`, `")})
		default:
			return shapeText()
		}
	}
	if len(forms) == 1 {
		return forms[0]
	}
	return shape{"anyOf": forms}
}
