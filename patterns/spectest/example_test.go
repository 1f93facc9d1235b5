package spectest_test

import (
	"fmt"

	"github.com/cepd/cepd/patterns/spectest"
)

const script = `# Inclusive: an event exactly within after the first still matches.
pattern
by: [user]
within: 10s
sequence:
- {step: a, where: kind == "fail", times: 2..}
- {step: b, where: kind == "ok"}
----
ok

events
1  0s user=u1 kind=fail
2  4s user=u1 kind=fail
3 10s user=u1 kind=ok
----
3: r "u1" a=[1 2] b=[3]
`

func Example() {
	blocks, err := spectest.Read("inclusive.test", script)
	if err != nil {
		fmt.Println(err)
		return
	}
	outputs, err := spectest.Eval("inclusive.test", blocks)
	fmt.Print(outputs[0], outputs[1], err)
	// Output:
	// ok
	// 3: r "u1" a=[1 2] b=[3]
	// <nil>
}
