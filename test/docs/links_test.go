package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

// pages are all pages of the project, by their path from its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	list := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (name == "bin" || name == "build" || name == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		list[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil || len(list) < 80 {
		t.Fatalf("%d pages, %v", len(list), err)
	}
	return list
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code    = regexp.MustCompile("`[^`]*`")
	heading = regexp.MustCompile(`^#+ (.*)$`)
)

// prose are the lines of a page that are no code.
func prose(page string) (lines []string) {
	inside := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			inside = !inside
		} else if !inside {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// anchor is what GitHub makes of a heading.
func anchor(title string) string {
	title = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(title, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

// TestLinks follows every link between pages: it leads to something that is there, and from the README all pages are
// reached.
func TestLinks(t *testing.T) {
	all := pages(t)
	anchors := map[string][]string{}
	for name, page := range all {
		for _, line := range prose(page) {
			if m := heading.FindStringSubmatch(line); m != nil {
				anchors[name] = append(anchors[name], anchor(m[1]))
			}
		}
	}
	leads := map[string][]string{}
	for name, page := range all {
		for _, line := range prose(page) {
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				file, place, _ := strings.Cut(m[1], "#")
				target := name
				if file != "" {
					target = filepath.ToSlash(filepath.Join(filepath.Dir(name), file))
				}
				info, err := os.Stat(filepath.Join(root, target))
				if err != nil {
					t.Errorf("%s: %s leads nowhere", name, m[1])
					continue
				}
				if place != "" && !slices.Contains(anchors[target], place) {
					t.Errorf("%s: %s has no such heading", name, m[1])
				}
				leads[name] = append(leads[name], target)
				if info.IsDir() {
					for page := range all {
						if filepath.ToSlash(filepath.Dir(page)) == target {
							leads[name] = append(leads[name], page)
						}
					}
				}
			}
		}
	}
	reached := map[string]bool{}
	for next := []string{"README.md"}; len(next) > 0; {
		name := next[0]
		next = next[1:]
		if !reached[name] {
			reached[name] = true
			next = append(next, leads[name]...)
		}
	}
	for name := range all {
		if !reached[name] {
			t.Errorf("no link leads to %s", name)
		}
	}
}
