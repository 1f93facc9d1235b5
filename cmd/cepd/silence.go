package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules/rulesapi"
)

// newSilence returns `cepd silence`.
func newSilence() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "silence",
		Short: "Keep alerts of a running job from being sent for a time",
		Long: `A silence keeps the alerts of some rules, of all keys or of some, from being sent until a point of event time. Rules go
on, and what is silenced is counted. A silence is part of the rules: it begins and ends for whole epochs.`,
		Example: `  # Two hours of quiet from one host
  cepd silence add --rule 'ssh-*' --key host=db7 --for 2h --comment 'new disk'

  # Which there are, and the end of one
  cepd silence list
  cepd silence end quiet-20270131-120000`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSilenceAdd(), newSilenceList(), newSilenceEnd())
	return cmd
}

// silenceFlags are the flags of `cepd silence add`.
type silenceFlags struct {
	clientFlags
	rules, key                   []string
	from, until, length, comment string
	force                        bool
}

func newSilenceAdd() *cobra.Command {
	var f silenceFlags
	cmd := &cobra.Command{
		Use:   "add [ID] --rule RULE --for DURATION",
		Short: "Begin a silence",
		Long: `Begin a silence. Without an ID it is called after the moment. --for counts from now, by the clock of this machine; the
end is event time, which follows it where events are read as they happen.`,
		Example: `  # All rules, until a day
  cepd silence add holidays --rule '*' --until 2027-01-02

  # One key of one rule
  cepd silence add --rule login-failed --key user=ann --for 1d --comment 'on leave'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := "quiet-" + time.Now().UTC().Format("20060102-150405")
			if len(args) == 1 {
				id = args[0]
				if err := needRules(cmd, args); err != nil {
					return err
				}
			}
			body, err := f.body(time.Now())
			if err != nil {
				return err
			}
			c, err := f.open()
			if err != nil {
				return err
			}
			a := question{method: http.MethodPut, path: silencePath(id), media: "application/json", body: body, header: []string{"If-None-Match", "*"}}
			if f.force {
				a.query = url.Values{"force": {"true"}}
			}
			answer, err := c.do(cmd.Context(), a)
			if err != nil {
				return clientError(cmd.ErrOrStderr(), err)
			}
			var report rulesapi.Report
			if err := answer.decode(&report); err != nil {
				return failed(err)
			}
			p := newPrinter(cmd.OutOrStdout())
			p.printf("%s: in force with epoch %d\n", printable(id), report.Epoch)
			return p.done()
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.rules, "rule", nil, "`RULE` that is silenced, or a pattern with * and ?; may be repeated")
	flags.StringArrayVar(&f.key, "key", nil, "`NAME=VALUE` that a part of the key must have; may be repeated")
	flags.StringVar(&f.from, "from", "", "`TIME` it begins: a date or RFC 3339; without it, it has begun")
	flags.StringVar(&f.until, "until", "", "`TIME` it ends: a date or RFC 3339")
	flags.StringVar(&f.length, "for", "", "`DURATION` until its end, from now")
	flags.StringVar(&f.comment, "comment", "", "`TEXT` for people")
	flags.BoolVar(&f.force, "force", false, "also where no rule is concerned")
	f.add(cmd)
	return cmd
}

// body is the silence that the flags describe.
func (f *silenceFlags) body(now time.Time) ([]byte, error) {
	if len(f.rules) == 0 {
		return nil, usagef("of which rules? --rule RULE, or --rule '*' for all")
	}
	if (f.until == "") == (f.length == "") {
		return nil, usagef("until when? Either --until TIME or --for DURATION")
	}
	until := f.until
	if f.length != "" {
		d, err := patterns.ParseDuration(f.length)
		if err != nil {
			return nil, usagef("--for: %w", err)
		}
		until = now.Add(d).UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	key := map[string]any{}
	for _, k := range f.key {
		name, value, ok := strings.Cut(k, "=")
		if !ok || name == "" {
			return nil, usagef("--key %s: write NAME=VALUE", k)
		}
		key[name] = keyValue(value)
	}
	s := map[string]any{"rules": f.rules, "until": until, "key": key}
	if f.from != "" {
		s["from"] = f.from
	}
	if f.comment != "" {
		s["comment"] = f.comment
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, failed(fmt.Errorf("write the silence: %w", err))
	}
	return b, nil
}

// keyValue reads the value of a part of a key: a number, true or false as JSON has them, and otherwise text, with or without
// quotes.
func keyValue(text string) any {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil || d.More() {
		return text
	}
	switch v.(type) {
	case json.Number, bool, string:
		return v
	}
	return text
}

func silencePath(id string) string { return rulesapi.Prefix + "/silences/" + id }

func newSilenceList() *cobra.Command {
	var f clientFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the silences",
		Long:  `List the silences in force, those in files of people too. Those that event time has passed are over.`,
		Example: `  # All
  cepd silence list

  # Those that are not over
  cepd silence list --json | jq '.[] | select(.over | not)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.open()
			if err != nil {
				return err
			}
			silences, err := listAll[rulesapi.Silence](cmd.Context(), c, rulesapi.Prefix+"/silences", nil)
			if err != nil {
				return clientError(cmd.ErrOrStderr(), err)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), silences)
			}
			p := newPrinter(cmd.OutOrStdout())
			writeSilences(p, silences)
			return p.done()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	f.add(cmd)
	return cmd
}

// writeSilences writes a line for each silence.
func writeSilences(p *printer, silences []rulesapi.Silence) {
	t := table{head: []string{"silence", "rules", "key", "from", "until", "comment", "file"}}
	for i := range silences {
		s := &silences[i]
		var key []string
		for name, value := range s.Key {
			key = append(key, fmt.Sprintf("%s=%v", name, value))
		}
		slices.Sort(key)
		from, until := "", s.Until.Format(time.RFC3339)
		if !s.From.IsZero() {
			from = s.From.Format(time.RFC3339)
		}
		if s.Over {
			until += " (over)"
		}
		t.add(printable(s.ID), printable(strings.Join(s.Rules, " ")), printable(strings.Join(key, " ")), from, until, printable(s.Comment), printable(s.File))
	}
	t.write(p, "")
}

func newSilenceEnd() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "end ID...",
		Short: "End silences",
		Long:  `End silences now: they are taken out of their file. One in a file of people is not ended, its file is named instead.`,
		Example: `  # One
  cepd silence end holidays

  # All that were made over HTTP
  cepd silence list --json | jq -r '.[] | select(.managed).id' | xargs cepd silence end`,
		Args: needRules,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.open()
			if err != nil {
				return err
			}
			p := newPrinter(cmd.OutOrStdout())
			for _, id := range args {
				if _, err := c.do(cmd.Context(), question{method: http.MethodDelete, path: silencePath(id), header: []string{"If-Match", "*"}}); err != nil {
					return clientError(cmd.ErrOrStderr(), err)
				}
				p.printf("%s: ended\n", printable(id))
			}
			return p.done()
		},
	}
	f.add(cmd)
	return cmd
}
