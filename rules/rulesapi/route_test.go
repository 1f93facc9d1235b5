package rulesapi

import "testing"

// TestDecode: a body is what its description says, or is refused.
func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		body string
		ok   bool
	}{
		{`{"rules":["a"],"until":"2027-01-01"}`, true},
		{`{"rules":["a"],"key":{"user":"x"},"until":"2027-01-01"} ` + "\n", true},
		{`{"rules":["a"],"key":null,"until":"2027-01-01"}`, false},
		{`{"rules":[null],"until":"2027-01-01"}`, false},
		{`{"rules":null}`, false},
		{`null`, false},
		{`{"rules":["a"],"till":"2027-01-01"}`, false},
		{`{"rules":["a"]} {}`, false},
		{`{"rules":["a"]} x`, false},
		{`{"rules":`, false},
		{``, false},
		{`[]`, false},
	} {
		var sent sentSilence
		if err := decode([]byte(tt.body), &sent); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.body, err)
		}
	}
}
