package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cepd/cepd/rules"
)

// ruleText is the rule file of a workload; n is the number of rules of w5.
func ruleText(name string, n int, window int64) ([]byte, error) {
	const (
		head = "version: 1\nrules:\n"
		rule = "- id: %s\n  from: events\n  by: [src_ip]\n  within: %dms\n  sequence:\n" +
			"  - {step: a, where: '%s'%s}\n  - {step: b, where: '%s'}\n"
	)
	b := []byte(head)
	switch name {
	case "w1":
		b = fmt.Appendf(b, rule, "w1", window, `type == "login_failed"`, ", times: 5", `type == "login_ok"`)
	case "w2", "starts":
		b = fmt.Appendf(b, rule, "w2", window, `type == "login_failed" and amount > 100`, "", `type == "transfer"`)
	case "w5":
		for i := range n {
			b = fmt.Appendf(b, rule, fmt.Sprintf("w5-%04d", i), window,
				fmt.Sprintf(`type == "t%04d" and amount > 900`, i), "", fmt.Sprintf(`type == "t%04d" and amount < 100`, i))
		}
	default:
		return nil, fmt.Errorf("workload %q: there are w1, w2, w5, starts", name)
	}
	return b, nil
}

// loadRules compiles the rules of a workload as a user's are: from a file.
func loadRules(name string, n int, window int64) (*rules.Set, error) {
	text, err := ruleText(name, n, window)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "cepd-bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left of it harms nobody
	file := filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	set, problems, err := rules.Load([]string{file})
	if err != nil {
		return nil, err
	}
	if set == nil {
		return nil, fmt.Errorf("the rules of %s: %w", name, problems)
	}
	return set, nil
}
