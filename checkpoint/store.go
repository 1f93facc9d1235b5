package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cepd/cepd/cep"
)

// Slots is the number of parts that state falls into: a store folds one at a time, and shards own whole slots, so that their
// number may change from run to run.
const Slots = 256

// NoteSavepoint is the note that an import leaves which begins a new lineage: its value is a [Savepoint] in JSON. The job
// removes it when every sink has begun.
const NoteSavepoint = "cepd:savepoint"

// Savepoint says what was imported.
type Savepoint struct {
	Job   string    `json:"job"`
	Epoch cep.Epoch `json:"epoch"`
}

// Record is a piece of state. Value replaces what was there under the slot and key; nil removes it. Of several for one key in
// one commit the last one counts.
type Record struct {
	Slot  uint8
	Key   []byte
	Value []byte
}

// Outgoing is a message that has to be sent.
type Outgoing struct {
	Sink     string
	Sequence uint64
	Data     []byte
}

// Blob is content that many epochs share, by the SHA-256 of it in hex: a rule file, a list.
type Blob struct {
	Hash string
	Data []byte
}

// Commit is what one epoch adds.
type Commit struct {
	Manifest Manifest
	Records  []Record
	Outbox   []Outgoing
	// Forget says, by sink, up to which sequence messages need not be kept any more.
	Forget map[string]uint64
	// Blobs are those that the manifest names and the store may lack; one that it has is no error.
	Blobs []Blob
}

// Manifest describes an epoch: all of it but the records and the messages.
type Manifest struct {
	Epoch cep.Epoch `json:"epoch"`
	// Job is the name under which sinks know the job.
	Job string `json:"job"`
	// Created is for people: nothing depends on it.
	Created time.Time `json:"created"`
	// Rules are the files of the rule set that runs, and of older sets of which versions drain, by name and blob.
	Rules []RuleSet `json:"rules"`
	// Sources says from where each partition has to be read to go on from this epoch.
	Sources []SourcePosition `json:"sources"`
	// Sinks says how far each sink is.
	Sinks []SinkPosition `json:"sinks"`
	// Engine is the engine's own part.
	Engine json.RawMessage `json:"engine"`
}

// RuleSet is a set of rules by its files. The first one of a manifest runs.
type RuleSet struct {
	ID    string     `json:"id"`
	Files []RuleFile `json:"files"`
}

// RuleFile is a file of a set: a rule file, or one that rules name (a list, a map).
type RuleFile struct {
	Name string `json:"name"`
	Hash string `json:"hash"`
	// Rules says that the file holds rules.
	Rules bool `json:"rules,omitempty"`
}

// SourcePosition is where a partition stands.
type SourcePosition struct {
	Stream    string `json:"stream"`
	Partition string `json:"partition"`
	// From is the offset to read again from, Read that behind the last record that was read. They are the same where nothing has
	// to be read again.
	From int64 `json:"from"`
	Read int64 `json:"read"`
	// Ended says that it was read to its end.
	Ended bool `json:"ended,omitempty"`
}

// SinkPosition is where a sink stands: Sequence is the last message prepared and committed with the epoch, Published the last
// one that the destination has confirmed.
type SinkPosition struct {
	Name      string `json:"name"`
	Lineage   uint64 `json:"lineage"`
	Sequence  uint64 `json:"sequence"`
	Chain     string `json:"chain"`
	Published uint64 `json:"published"`
}

// Info is what a store knows of an epoch without reading it.
type Info struct {
	Epoch cep.Epoch
	// Base says that the epoch stands by itself: later ones are told as what changed since.
	Base bool
	// Bytes is the size of what the epoch added.
	Bytes int64
	// Damage says what is wrong with it, "" if nothing is.
	Damage string
}

// Store keeps epochs. Commit comes from one goroutine at a time, the other methods from any.
//
// A store has one owner: a second one is refused when it opens it, with an error that names the first.
type Store interface {
	// Epochs returns the epochs that are kept, oldest first; damaged ones say so.
	Epochs(ctx context.Context) ([]Info, error)
	// Manifest returns the manifest of an epoch without its records, which may be damaged all the same.
	Manifest(ctx context.Context, e cep.Epoch) (*Manifest, error)
	// Restore hands out all records of an epoch, in no order, each key once, and returns its manifest. What is handed out is
	// valid during the call of each only, and each must not call the store. A damaged epoch is refused before anything of it
	// is handed out ([ErrDamaged]): everything that is needed is verified first.
	Restore(ctx context.Context, e cep.Epoch, each func(Record) error) (*Manifest, error)
	// Commit makes an epoch durable, or does nothing. Epochs follow each other without gaps; that of the manifest is one
	// above the newest, whatever became of that one, and 1 in an empty store. A commit that is there already, byte for byte,
	// is no error: the reply may have been lost. Messages of a sink are numbered without gaps; where none is kept they may
	// go on further above. Behind an error the store is as it was, and the same commit may be tried again.
	Commit(ctx context.Context, c *Commit) error
	// Rewind forgets the epochs above e, and the messages that they brought: e is the newest one then. What was forgotten
	// of the messages before stays forgotten.
	Rewind(ctx context.Context, e cep.Epoch) error
	// Blob returns content by its hash; [ErrMissing].
	Blob(ctx context.Context, hash string) ([]byte, error)
	// Outbox returns messages of a sink from a sequence on, as [Outgoing], at most so many and bytesMax beyond the first.
	Outbox(ctx context.Context, sink string, from uint64, max, bytesMax int) ([]Outgoing, error)
	// OutboxSize is the number of messages that are kept for a sink, and their bytes.
	OutboxSize(sink string) (messages int, bytes int64)
	// Note keeps a small value of a sink between epochs, as of a position that was begun; nil removes it.
	Note(ctx context.Context, name string, value []byte) error
	// Noted returns it; nil where there is none.
	Noted(ctx context.Context, name string) ([]byte, error)
	// Oldest returns the manifest of the oldest epoch that is kept and sound: sources must stay readable from its positions.
	// [ErrMissing] where there is none.
	Oldest(ctx context.Context) (*Manifest, error)
	// Maintain does the housekeeping that is due: it folds what changed into a new base and drops what is older than is
	// kept. It may run beside Commit, and gives up when ctx ends.
	Maintain(ctx context.Context) error
	// Fold makes a base of the newest epoch although none is due, and does what Maintain does behind that. With as many of
	// them, each of another epoch, as are kept, the oldest epoch that is kept is the first of these.
	Fold(ctx context.Context) error
	// Check verifies everything that is kept and returns all that is wrong, joined.
	Check(ctx context.Context) error
	// Close waits for the calls that run. Everything is durable before it.
	Close() error
}

var (
	// ErrMissing says that an epoch or blob is not there.
	ErrMissing = errors.New("not in the store")
	// ErrDamaged says that what is there is not what was written.
	ErrDamaged = errors.New("damaged")
	// ErrLocked says that another process owns the store.
	ErrLocked = errors.New("in use")
	// ErrUnusable says that nobody knows any more what is durable: a sync failed, or pages broke under a store that was
	// open. Every call answers so from then on; opening the store again shows what is there.
	ErrUnusable = errors.New("the store can no longer be used, open it again")
	// ErrNewer says that a newer version of the program has written it.
	ErrNewer = errors.New("written by a newer version")
)
