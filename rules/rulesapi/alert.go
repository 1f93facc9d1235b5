package rulesapi

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/cepd/cepd/cep"
)

// Alert is an alert with its place among those of the job: the cursor of lists and the id of live events.
type Alert struct {
	At    string          `json:"at"`
	Alert json.RawMessage `json:"alert"`
}

func alertOf(e fedAlert) Alert { return Alert{At: e.mark.String(), Alert: e.json} }

// listAlerts answers with the newest alerts, newest first.
func (a *API) listAlerts(r *request) error {
	limit, after, err := r.page()
	if err != nil {
		return err
	}
	var before mark
	if after != "" {
		if before, err = parseMark(after); err != nil {
			return err
		}
	}
	rule, err := r.ruleParam()
	if err != nil {
		return err
	}
	since := cep.BeforeAll
	if text := r.param("since"); text != "" {
		if since, err = timeOf(text); err != nil {
			return kindBadRequest.problem("since: %v", err)
		}
	}
	found, more := a.config.Feed.newestFirst(before, limit, func(e *fedAlert) bool {
		return (rule == "" || e.rule == rule) && e.time >= since
	})
	list := List[Alert]{Items: make([]Alert, len(found))}
	for i, e := range found {
		list.Items[i] = alertOf(e)
	}
	if more {
		list.Next = list.Items[limit-1].At
	}
	return r.respond(http.StatusOK, list)
}

// ruleParam returns the rule that only is asked for, "" for all.
func (r *request) ruleParam() (string, error) {
	rule := r.param("rule")
	if rule != "" && !validID(rule) {
		return "", kindBadRequest.problem("rule is the id of a rule")
	}
	return rule, nil
}

// timeOf reads a time as rules write it: a date or RFC 3339.
func timeOf(text string) (cep.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		if t, err = time.Parse(time.DateOnly, text); err != nil {
			return 0, kindBadRequest.problem("%.100q is no time: write 2027-01-31 or 2027-01-31T12:00:00Z", text)
		}
	}
	at, ok := cep.TimeOf(t)
	if !ok {
		return 0, kindBadRequest.problem("%.100q is outside the years 1678 to 2261", text)
	}
	return at, nil
}

// getAlert answers with an alert that is kept.
func (a *API) getAlert(r *request) error {
	e, ok := a.config.Feed.find(r.Param("id"))
	if !ok {
		return kindNotFound.problem("it is not among the newest alerts, of which up to %d are kept", alertsMax)
	}
	return r.respond(http.StatusOK, alertOf(e))
}
