package rulesapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/rogpeppe/go-internal/diff"
)

// listRevisions answers with the revisions of a rule, newest first and without their texts.
func (a *API) listRevisions(r *request) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	limit, after, err := r.page()
	if err != nil {
		return err
	}
	numbers := a.history.numbers(id)
	if len(numbers) == 0 {
		return kindNotFound.problem("nothing is known of a rule %s", id)
	}
	slices.Reverse(numbers)
	if after != "" {
		n, err := strconv.Atoi(after)
		if err != nil {
			return kindBadRequest.problem("after: %.100q is no cursor", after)
		}
		numbers = slices.DeleteFunc(numbers, func(x int) bool { return x >= n })
	}
	list := List[Revision]{Items: []Revision{}}
	if len(numbers) > limit {
		numbers = numbers[:limit]
		list.Next = strconv.Itoa(numbers[limit-1])
	}
	for _, n := range numbers {
		rev, err := a.history.get(id, n)
		if err != nil {
			return err
		}
		if rev != nil { // else it was forgotten in between
			rev.Text = ""
			list.Items = append(list.Items, *rev)
		}
	}
	return r.respond(http.StatusOK, list)
}

// revision finds a revision by what the client calls it.
func (a *API) revision(id, number string) (*Revision, error) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return nil, kindBadRequest.problem("%.100q is no number of a revision", number)
	}
	rev, err := a.history.get(id, n)
	if err != nil {
		return nil, err
	}
	if rev == nil {
		return nil, kindNotFound.problem("revision %d of %s is not kept", n, id)
	}
	return rev, nil
}

// getRevision answers with a revision and its text.
func (a *API) getRevision(r *request) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	rev, err := a.revision(id, r.Param("number"))
	if err != nil {
		return err
	}
	return r.respond(http.StatusOK, rev)
}

// getDiff answers with what differs between two revisions: the last two where nothing else is said.
func (a *API) getDiff(r *request) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	numbers := a.history.numbers(id)
	if len(numbers) == 0 {
		return kindNotFound.problem("nothing is known of a rule %s", id)
	}
	to, err := a.revision(id, orNumber(r.param("to"), numbers[len(numbers)-1]))
	if err != nil {
		return err
	}
	from := &Revision{Rule: id}
	if text := r.param("from"); text != "" || slices.Contains(numbers, to.Number-1) {
		if from, err = a.revision(id, orNumber(text, to.Number-1)); err != nil {
			return err
		}
	}
	name := func(rev *Revision) string { return fmt.Sprintf("%s@%d", id, rev.Number) }
	text := diff.Diff(name(from), []byte(from.Text), name(to), []byte(to.Text))
	return r.Blob(http.StatusOK, "text/x-diff; charset=utf-8", text)
}

func orNumber(text string, n int) string {
	if text == "" {
		return strconv.Itoa(n)
	}
	return text
}
