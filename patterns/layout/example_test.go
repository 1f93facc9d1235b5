package layout_test

import (
	"fmt"

	"github.com/cepd/cepd/patterns/layout"
)

func ExampleFormat() {
	text, err := layout.Format("rules/ssh.yaml", []byte(`version: 1
rules:
    - id: ssh
      from: auth
      sequence:
          - {step: a,   having: sum(a, .n) > 9,times: 2..} # torn
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(text))
	// Output:
	// version: 1
	// rules:
	// - id: ssh
	//   from: auth
	//   sequence:
	//   - {step: a, having: 'sum(a, .n) > 9', times: 2..} # torn
}
