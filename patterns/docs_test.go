package patterns

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The rules that docs/rules.md shows are loaded: what nobody runs rots.
func TestDocumentedRules(t *testing.T) {
	text, err := os.ReadFile("../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	if len(blocks) < 4 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for i, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		_, diagnostics := Load([]Source{{Name: fmt.Sprintf("block %d", i+1), Data: []byte(block)}}, Options{})
		if len(diagnostics) > 0 {
			t.Error(diagnostics.Error())
		}
	}
}
