package rulesapi

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cepd/cepd/rules"
)

// ManagedRule is a rule that the API keeps, with its text.
type ManagedRule struct {
	ID   string `json:"id"`
	ETag string `json:"etag,omitempty"`
	Text string `json:"text"`
}

// ManagedSet are all rules that the API keeps.
type ManagedSet struct {
	// ETag is the version of all of them together.
	ETag  string        `json:"etag,omitempty"`
	Rules []ManagedRule `json:"rules"`
}

// managedSet reads the managed files; those that belong to people although they lie there are left out.
func (a *API) managedSet(set *rules.Set) (*ManagedSet, error) {
	all := &ManagedSet{Rules: []ManagedRule{}}
	if a.managed.dir == "" {
		return all, nil
	}
	entries, err := os.ReadDir(filepath.FromSlash(a.managed.dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the managed rules: %w", err)
	}
	var versions strings.Builder
	for _, e := range entries {
		id, isRule := strings.CutSuffix(e.Name(), ".yaml")
		if !isRule || !validID(id) {
			continue
		}
		_, text, err := a.current(set, id)
		if p, ok := errors.AsType[*Problem](err); ok && p.Status == http.StatusConflict {
			continue
		}
		if err != nil {
			return nil, err
		}
		if text != nil {
			all.Rules = append(all.Rules, ManagedRule{id, etagOfFile(text), string(text)})
			fmt.Fprintf(&versions, "%s %s\n", id, hashOf(text))
		}
	}
	if len(all.Rules) > 0 {
		all.ETag = etagOf(hashOf([]byte(versions.String())))
	}
	return all, nil
}

// getManaged answers with all managed rules.
func (a *API) getManaged(r *request) error {
	all, err := a.managedSet(a.config.Daemon.Rules())
	if err != nil {
		return err
	}
	if all.ETag != "" {
		r.Response().Header().Set("ETag", all.ETag)
		if r.unchanged(all.ETag) {
			return r.NoContent(http.StatusNotModified)
		}
	}
	return r.respond(http.StatusOK, all)
}

// putManaged replaces all managed rules.
func (a *API) putManaged(r *request) error {
	data, _, err := r.body()
	if err != nil {
		return err
	}
	var sent ManagedSet
	if err := decode(data, &sent); err != nil {
		return err
	}
	if sent.Rules == nil {
		return kindBadRequest.problem("the body has no list `rules`: an empty one deletes all of them")
	}
	return a.change(r, "replace", "managed", func(set *rules.Set) (*draft, error) {
		return a.replaceDraft(r, set, sent.Rules)
	})
}

// replaceDraft is the change that leaves just the rules that were sent.
func (a *API) replaceDraft(r *request, set *rules.Set, sent []ManagedRule) (*draft, error) {
	all, err := a.managedSet(set)
	if err == nil {
		err = r.precondition(all.ETag)
	}
	if err != nil {
		return nil, err
	}
	out := &draft{files: map[string][]byte{}, old: strings.Trim(all.ETag, `"`)}
	before := make(map[string]string, len(all.Rules))
	for _, m := range all.Rules {
		out.files[a.managed.name(m.ID)] = nil
		before[m.ID] = m.Text
	}
	var checks []func(*rules.Set) error
	seen := map[string]bool{}
	for i, m := range sent {
		if !validID(m.ID) || seen[m.ID] {
			return nil, kindBadRequest.problem("rules[%d]: %.*q is no id, or stands there twice", i, idMax, m.ID)
		}
		seen[m.ID] = true
		name, _, err := a.current(set, m.ID)
		if err == nil {
			err = ownText(name, m.ID, []byte(m.Text))
		}
		if err != nil {
			return nil, err
		}
		out.files[name] = []byte(m.Text)
		if old, was := before[m.ID]; !was || old != m.Text {
			out.ids = append(out.ids, m.ID)
		}
		delete(before, m.ID)
		checks = append(checks, holdsOne(name, m.ID))
	}
	out.ids = append(out.ids, slices.Sorted(maps.Keys(before))...) // these go
	var versions strings.Builder
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		fmt.Fprintf(&versions, "%s %s\n", id, hashOf(out.files[a.managed.name(id)]))
	}
	if len(seen) > 0 {
		out.new = hashOf([]byte(versions.String()))
	}
	out.check = func(set *rules.Set) error {
		for _, check := range checks {
			if err := check(set); err != nil {
				return err
			}
		}
		return nil
	}
	return out, nil
}
