package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/patterns"
)

// checkFormats are the forms in which `cepd check` says what it finds.
var checkFormats = []string{"text", "json", "github", "sarif"}

// writeGitHub writes diagnostics as the commands by which a step of GitHub Actions marks lines:
// https://docs.github.com/actions/reference/workflow-commands-for-github-actions
func writeGitHub(p *printer, diagnostics patterns.Diagnostics) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, d := range diagnostics {
		level := d.Severity()
		if d.Note {
			level = "notice"
		}
		place := fmt.Sprintf("line=%d,col=%d,endColumn=%d", d.Line, d.Column, d.Column+d.Length)
		if line, _ := d.End(); line > d.Line {
			place = fmt.Sprintf("line=%d,endLine=%d", d.Line, line) // GitHub knows columns in one line only
		}
		p.printf("::%s file=%s,%s,title=%s::%s\n", level, property.Replace(filepath.ToSlash(d.File)), place,
			property.Replace(d.Code), data.Replace(withHint(d)))
	}
	return p.done()
}

func withHint(d patterns.Diagnostic) string {
	if d.Hint == "" {
		return d.Message
	}
	return d.Message + " (" + d.Hint + ")"
}

// The parts of SARIF 2.1.0 that viewers of findings read:
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

// sarifRule is a code of ours: what SARIF calls a rule.
type sarifRule struct {
	ID               string     `json:"id"`
	ShortDescription sarifText  `json:"shortDescription"`
	FullDescription  *sarifText `json:"fullDescription,omitempty"`
	HelpURI          string     `json:"helpUri"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

type sarifRegion struct {
	StartLine   int       `json:"startLine"`
	StartColumn int       `json:"startColumn"`
	EndLine     int       `json:"endLine"`
	EndColumn   int       `json:"endColumn"`
	Snippet     sarifText `json:"snippet"`
}

const documentation = "https://github.com/cepd/cepd/blob/main/docs/"

// sarifOf makes the log of a run: the codes that occur, and a result for each diagnostic.
func sarifOf(diagnostics patterns.Diagnostics) sarifLog {
	log := sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: make([]sarifRun, 1)}
	run := &log.Runs[0]
	run.ColumnKind, run.Results = "unicodeCodePoints", []sarifResult{}
	run.Tool.Driver = sarifDriver{Name: "cepd", Version: version, InformationURI: "https://github.com/cepd/cepd", Rules: []sarifRule{}}
	codes := allCodes()
	for _, d := range diagnostics {
		i := slices.IndexFunc(run.Tool.Driver.Rules, func(r sarifRule) bool { return r.ID == d.Code })
		if i < 0 {
			i = len(run.Tool.Driver.Rules)
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, codes.rule(d.Code))
		}
		r := sarifResult{RuleID: d.Code, RuleIndex: i, Level: d.Severity(), Message: sarifText{withHint(d)}, Locations: make([]sarifLocation, 1)}
		r.Locations[0].Physical.Artifact.URI = (&url.URL{Path: filepath.ToSlash(d.File)}).String()
		if d.Line > 0 {
			endLine, endColumn := d.End()
			r.Locations[0].Physical.Region = &sarifRegion{d.Line, d.Column, endLine, endColumn, sarifText{d.Excerpt}}
		}
		run.Results = append(run.Results, r)
	}
	return log
}

// codeList are all codes that check gives, each with the page that explains it.
type codeList []sarifRule

func allCodes() codeList {
	var list codeList
	add := func(page string, codes []patterns.Code) {
		for _, c := range codes {
			r := sarifRule{ID: c.Code, ShortDescription: sarifText{c.Title}, HelpURI: fmt.Sprintf("%s%s#%s", documentation, page, strings.ToLower(c.Code))}
			if c.Explanation != "" {
				r.FullDescription = &sarifText{c.Explanation}
			}
			list = append(list, r)
		}
	}
	add("diagnostics.md", patterns.Codes())
	add("configuration.md", config.Codes())
	add("diagnostics.md", eventCodes)
	return list
}

func (l codeList) rule(code string) sarifRule {
	if i := slices.IndexFunc(l, func(r sarifRule) bool { return r.ID == code }); i >= 0 {
		return l[i]
	}
	return sarifRule{ID: code, ShortDescription: sarifText{code}, HelpURI: documentation + "diagnostics.md"}
}
