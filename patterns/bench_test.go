package patterns

import (
	"fmt"
	"strings"
	"testing"
)

// manyRules is a file of n rules of the usual kind.
func manyRules(n int) []byte {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	for i := range n {
		fmt.Fprintf(&b, `- id: rule-%d
  severity: high
  from: auth
  by: [src_ip]
  where: service == "sshd"
  within: 10m
  sequence:
  - {step: fail, where: outcome == "failure" and code == %d, times: 5..}
  - {step: ok, where: outcome == "success"}
  alert:
    title: "{{user}} in from {{src_ip}} after {{fails}} failures"
    fields: {user: ok.user, src_ip: ok.src_ip, fails: len(fail)}
`, i, i)
	}
	return []byte(b.String())
}

func BenchmarkLoad(b *testing.B) {
	data := manyRules(1000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if set, diagnostics := Load([]Source{{Name: "many.yaml", Data: data}}, Options{}); set == nil {
			b.Fatal(diagnostics.Error())
		}
	}
}
