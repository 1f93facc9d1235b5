package conformance

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Vector is one case of a peer.
type Vector struct {
	ID           string           `json:"id"`
	Kind         string           `json:"kind"`
	Shorthand    string           `json:"shorthand"`
	PeerQuirk    string           `json:"peer_quirk"`
	Raises       string           `json:"raises"`
	Mode         string           `json:"mode"`
	PartitionBy  string           `json:"partition_by"`
	TieBreak     string           `json:"tie_break"`
	Unordered    bool             `json:"unordered"`
	EmitTimeouts bool             `json:"emit_timeouts"`
	Pattern      Pattern          `json:"pattern"`
	Events       []map[string]any `json:"events"`
	Input        []Entry          `json:"input"`
	Expected     Expected         `json:"expected"`

	// Text is the vector as it was read: other peers have patterns of other forms.
	Text []byte `json:"-"`
	// Sum identifies the vector by its content: ids are the peer generator's serial numbers and come again with other
	// seeds.
	Sum string `json:"-"`
}

// Pattern is what the peer was asked to find.
type Pattern struct {
	Steps    []Step     `json:"steps"`
	WithinMS *int64     `json:"within_ms"`
	After    AfterMatch `json:"after_match"`
}

// AfterMatch is the peer's skip strategy.
type AfterMatch struct {
	Strategy       string `json:"strategy"`
	Step           string `json:"step"`
	ErrorIfMissing bool   `json:"error_if_missing"`
}

// Step is one element of a pattern. Words that a builder accepts twice, only to refuse them then, are lists.
type Step struct {
	Name        string          `json:"name"`
	Contiguity  string          `json:"contiguity"`
	Where       string          `json:"where"`
	Min         *int            `json:"min"`
	Max         json.RawMessage `json:"max"` // null: no bound; absent: as Min
	Inner       Words           `json:"inner"`
	Optional    bool            `json:"optional"`
	Greedy      bool            `json:"greedy"`
	Until       Words           `json:"until"`
	GapMS       int64           `json:"gap_ms"`
	LoopGapMS   *int64          `json:"loop_gap_ms"`
	Group       []Step          `json:"group"`
	Quantifiers []string        `json:"quantifiers"`
}

// Words is a word or a list of words.
type Words []string

// UnmarshalJSON reads a string or a list of strings.
func (w *Words) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*w = Words{""}
		return json.Unmarshal(data, &(*w)[0])
	}
	return json.Unmarshal(data, (*[]string)(w))
}

// Entry is one thing that happens: an event arrives, or time moves.
type Entry struct {
	Event     string          `json:"event"`
	TS        int64           `json:"ts"`
	AdvanceTo *int64          `json:"advance_to"`
	Watermark json.RawMessage `json:"watermark"` // a number or "max"
}

// Expected is what the peer made of the input.
type Expected struct {
	Matches  []Assignment `json:"matches"`
	Timeouts []Assignment `json:"timeouts"`
	// Error and Rule belong to definitions that the peer refuses.
	Error string `json:"error"`
	Rule  string `json:"rule"`
	// Late belongs to kind lateness.
	Late     []string `json:"late"`
	Accepted []string `json:"accepted"`
}

// Assignment says which events a match or timeout took.
type Assignment struct {
	// At is the index of the entry that caused it; nil where the peer's test does not say.
	At    *int                `json:"at"`
	Steps map[string][]string `json:"steps"`
}

// Quirks are the odd corners of the peer that the vector needs.
func (v *Vector) Quirks() []string {
	if v.PeerQuirk == "" {
		return nil
	}
	return strings.Split(v.PeerQuirk, "; ")
}

// Load reads the vectors of a file, which may be compressed, and returns the checksum of its content.
func Load(folder, name string) (_ []*Vector, sum string, err error) {
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return nil, "", fmt.Errorf("read vectors: %w", err)
	}
	if strings.HasSuffix(name, ".gz") {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, "", fmt.Errorf("read vectors of %s: %w", name, err)
		}
		if data, err = io.ReadAll(r); err != nil {
			return nil, "", fmt.Errorf("read vectors of %s: %w", name, err)
		}
	}
	var vectors []*Vector
	lines := bufio.NewScanner(bytes.NewReader(data))
	// The longest known line has 6 KiB; a vector of a megabyte would be a mistake in the file.
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		v := &Vector{Text: bytes.Clone(lines.Bytes()), Sum: checksum(lines.Bytes())}
		if err := json.Unmarshal(v.Text, v); err != nil {
			return nil, "", fmt.Errorf("%s:%d: %w", name, len(vectors)+1, err)
		}
		vectors = append(vectors, v)
	}
	if err := lines.Err(); err != nil {
		return nil, "", fmt.Errorf("read vectors of %s: %w", name, err)
	}
	return vectors, checksum(data), nil
}

// checksum is short enough for a list that people read; it tells apart vectors of one id, not forgeries.
func checksum(data []byte) string {
	sum := sha256.Sum256(bytes.TrimSpace(data))
	return hex.EncodeToString(sum[:4])
}
