package job

import (
	"context"
	"errors"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/rules"
)

var (
	// ErrNotDurable is inside the error of Swap when its context ended after the rules had changed and before that was durable:
	// they are in force, and a crash now would have the next start change them again.
	ErrNotDurable = errors.New("the rules have changed, and that is not durable yet")

	errSwapping = errors.New("another set of rules is about to take over")
)

// Swapped is what a swap did.
type Swapped struct {
	// Epoch is the one whose barrier the swap rode on, 0 where nothing had to be done; Set the id of the set that runs.
	Epoch cep.Epoch `json:"epoch,omitempty"`
	Set   string    `json:"set"`
	// Changes tell what became of each rule, by id.
	Changes []RuleChange `json:"changes,omitempty"`
	// Pause is how long nothing was read or released, before reading went on with the new set.
	Pause time.Duration `json:"pause_ns"`
}

// Swap has another set of rules take over in the running job, and returns once the epoch that holds it is durable. After any
// other error than [ErrNotDurable] the old set runs on. A set with the id of the one that runs changes nothing.
func (j *Job) Swap(ctx context.Context, set *rules.Set) (*Swapped, error) {
	return nil, errNotRunning
}

// Plan says what [Job.Swap] would do to each rule, and changes nothing.
func (j *Job) Plan(ctx context.Context, set *rules.Set) ([]RuleChange, error) {
	return nil, errNotRunning
}

// Rules is the set of the newest durable epoch, or that of the start before there is one.
func (j *Job) Rules() *rules.Set { return j.config.Rules }
