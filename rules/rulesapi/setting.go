package rulesapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cepd/cepd/rules"
)

// switches are the settings behind the routes that switch a rule.
var switches = map[string]setting{
	"enable": {"enabled", "true"}, "disable": {"enabled", "false"},
	"shadow": {"mode", "shadow"}, "alert": {"mode", "alert"},
}

// switchRule enables or disables a rule, or says whether it delivers.
func (a *API) switchRule(r *request) error {
	action := path.Base(r.route.Path)
	return a.set(r, action, []setting{switches[action]})
}

// patchRule changes some keys of a rule.
func (a *API) patchRule(r *request) error {
	data, _, err := r.body()
	if err != nil {
		return err
	}
	settings, err := settingsOf(data)
	if err != nil {
		return err
	}
	return a.set(r, "patch", settings)
}

// patchable are the keys that a patch may change, and what their values are.
var patchable = map[string]string{
	"enabled": "true or false", "mode": "text", "severity": "text", "status": "text", "name": "text", "description": "text",
	"revision": "a whole number",
}

// settingsOf reads a merge patch (RFC 7396).
func settingsOf(data []byte) ([]setting, error) {
	var patch map[string]json.RawMessage
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, kindBadRequest.problem("the body is no JSON object: %v", err)
	}
	if patch == nil {
		return nil, kindBadRequest.problem("the body is no JSON object")
	}
	var settings []setting
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		want, ok := patchable[key]
		if !ok {
			return nil, kindBadRequest.problem("%q cannot be patched; %s can. For all else send the whole text (PUT)", key,
				strings.Join(slices.Sorted(maps.Keys(patchable)), ", "))
		}
		s, raw := setting{key: key}, bytes.TrimSpace(patch[key])
		var text string
		var on bool
		var number int64
		switch {
		case string(raw) == "null":
		case want == "text" && json.Unmarshal(raw, &text) == nil:
			s.value = scalar(text)
		case want == "true or false" && json.Unmarshal(raw, &on) == nil:
			s.value = fmt.Sprint(on)
		case want == "a whole number" && json.Unmarshal(raw, &number) == nil:
			s.value = fmt.Sprint(number)
		default:
			return nil, kindBadRequest.problem("%s is %s, or null to take it away", key, want)
		}
		settings = append(settings, s)
	}
	return settings, nil
}

// set gives keys of a rule other values, and leaves the rest of its text as it stands.
func (a *API) set(r *request, action string, settings []setting) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	return a.change(r, action, id, func(set *rules.Set) (*draft, error) {
		name, old, err := a.existing(r, set, id)
		if err != nil {
			return nil, err
		}
		doc, ok := parse(name, old)
		if !ok {
			return nil, kindConflict.problem("%s cannot be read as it is: send the whole text (PUT)", name)
		}
		text, err := doc.set("rules", id, settings)
		if err != nil {
			return nil, kindConflict.problem("%v", err)
		}
		return ruleDraft(name, id, old, []byte(text)), nil
	})
}
