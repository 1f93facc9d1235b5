package redissink

import (
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/cepd/cepd/sinks"
)

//go:embed emit.lua
var emitSource string

// emit is the script. It is immutable: its digest is computed when it is made.
var emit = redis.NewScript(emitSource)

// operation is what the script is asked to do.
type operation string

const (
	opLook   operation = "look"
	opOwn    operation = "own"
	opBegin  operation = "begin"
	opAppend operation = "append"
	opAdd    operation = "add"
)

// status is what the script answers; emit.lua says when.
type status string

const (
	statusStands   status = "STANDS"
	statusOwned    status = "OWNED"
	statusRaced    status = "RACED"
	statusBegun    status = "BEGUN"
	statusOK       status = "OK"
	statusDup      status = "DUP"
	statusGap      status = "GAP"
	statusAhead    status = "AHEAD"
	statusDiverged status = "DIVERGED"
	statusFenced   status = "FENCED"
	statusGone     status = "GONE"
	statusForeign  status = "FOREIGN"
)

// sequenceMax is the largest sequence that Lua's numbers hold exactly. A million alerts a second reach it in 285 years.
const sequenceMax = 1 << 53

// lineageMax tells our ids from those that servers give, which begin with milliseconds since 1970: a lineage is a count of
// restored savepoints, and 10^11 ms were over in 1973.
const lineageMax = 100_000_000_000

// request is one call of the script.
type request struct {
	op    operation
	fence string
	// number is the fence to take (own), or the lineage of base.
	number   uint64
	base     sinks.Progress
	messages []sinks.Message
	minID    string
}

// answer is what the script said.
type answer struct {
	status status
	owner  string
	fence  uint64
	// at is the position in the hash, if placed. last is the stream's last id, "" for none, and witness the chain in the
	// entry of that id: "" where that entry is gone, noWitness where it has no chain.
	placed  bool
	at      sinks.Progress
	last    string
	witness string
	trouble string
}

// noWitness is what the script says where the last entry is not one of ours.
const noWitness = "none"

// parseAnswer reads what the script returned.
func parseAnswer(values []any) (answer, error) {
	if len(values) != 9 {
		return answer{}, fmt.Errorf("the script answered %d values, 9 were expected", len(values))
	}
	var texts [9]string
	for i, v := range values {
		t, ok := v.(string)
		if !ok {
			return answer{}, fmt.Errorf("the script answered %T at place %d, a text was expected", v, i+1)
		}
		texts[i] = t
	}
	a := answer{
		status: status(texts[0]), owner: texts[1], placed: texts[4] != "",
		last: texts[6], witness: texts[7], trouble: texts[8],
	}
	var err error
	if texts[2] != "" {
		if a.fence, err = strconv.ParseUint(texts[2], 10, 64); err != nil {
			return answer{}, fmt.Errorf("field fence of the position: %w", err)
		}
	}
	if !a.placed {
		return a, nil
	}
	if a.at.Lineage, err = strconv.ParseUint(texts[3], 10, 64); err != nil {
		return answer{}, fmt.Errorf("field lineage of the position: %w", err)
	}
	if a.at.Sequence, err = strconv.ParseUint(texts[4], 10, 64); err != nil {
		return answer{}, fmt.Errorf("field sequence of the position: %w", err)
	}
	if a.at.Chain, err = parseChain(texts[5]); err != nil {
		return answer{}, fmt.Errorf("field chain of the position: %w", err)
	}
	return a, nil
}

func parseChain(text string) (sinks.Chain, error) {
	var c sinks.Chain
	if len(text) != hex.EncodedLen(len(c)) {
		return c, fmt.Errorf("%d characters, %d were expected", len(text), hex.EncodedLen(len(c)))
	}
	_, err := hex.Decode(c[:], []byte(text))
	return c, err
}

// entryID is the id that an entry of the stream has. The lineage comes first, so that a new one may begin at a lower sequence.
func entryID(lineage, sequence uint64) string {
	return strconv.FormatUint(lineage, 10) + "-" + strconv.FormatUint(sequence, 10)
}

// parseEntryID reads an id that entryID made; false for one that a server gave.
func parseEntryID(id string) (lineage, sequence uint64, ok bool) {
	l, s, ok := strings.Cut(id, "-")
	if !ok {
		return 0, 0, false
	}
	lineage, err := strconv.ParseUint(l, 10, 64)
	if err != nil || lineage == 0 || lineage >= lineageMax {
		return 0, 0, false
	}
	sequence, err = strconv.ParseUint(s, 10, 64)
	if err != nil || sequence > sequenceMax {
		return 0, 0, false
	}
	return lineage, sequence, true
}
