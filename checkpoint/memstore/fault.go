package memstore

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

// Fault is what goes wrong with one call.
type Fault uint8

// The faults.
const (
	// None: nothing goes wrong.
	None Fault = iota
	// FailBefore: the call fails and has changed nothing. The store stays usable.
	FailBefore
	// FailAfter: all of it is durable, and the call fails: the reply was lost.
	FailAfter
	// CrashBefore and CrashAfter: the same, and the process is dead from then on, see [Disk.Crash].
	CrashBefore
	CrashAfter
)

var (
	// ErrInjected is inside the errors of FailBefore and FailAfter.
	ErrInjected = errors.New("fault on purpose")
	// ErrCrashed is what a store answers whose process is dead.
	ErrCrashed = errors.New("the process is dead")
	// ErrFull is what a full disk answers. It is ENOSPC.
	ErrFull = fmt.Errorf("write: %w", syscall.ENOSPC)
)

// Op is a call that changes the disk.
type Op struct {
	// Name is commit, rewind, maintain or note.
	Name string
	// Epoch is that of a commit or rewind.
	Epoch cep.Epoch
	// Note is the name of a note.
	Note string
}

// String returns the call for messages.
func (o Op) String() string {
	switch {
	case o.Note != "":
		return o.Name + " " + o.Note
	case o.Epoch != 0:
		return fmt.Sprintf("%s epoch %d", o.Name, o.Epoch)
	}
	return o.Name
}

// SetFaults makes f decide about every call that changes the disk, in the goroutine of the call and before it begins; nil:
// nothing goes wrong any more. f may call the Disk.
func (d *Disk) SetFaults(f func(Op) Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = f
}

func (d *Disk) fault(op Op) Fault {
	d.mu.Lock()
	f := d.faults
	d.mu.Unlock()
	if f == nil {
		return None
	}
	return f(op)
}

// SetFull fills the disk, or makes room again. While it is full every change fails with [ErrFull], and reading goes on.
func (d *Disk) SetFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// Damage spoils what an epoch added. It and the epochs above cannot be restored, but from a base above it.
func (d *Disk) Damage(e cep.Epoch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epochs[e] == nil {
		return fmt.Errorf("damage epoch %d: %w", e, checkpoint.ErrMissing)
	}
	d.epochs[e].damaged = true
	return nil
}

// DamageBase spoils the base of an epoch: what it held must be told by an older one and all that changed since.
func (d *Disk) DamageBase(e cep.Epoch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bases[e] == nil {
		return fmt.Errorf("damage the base of epoch %d: %w", e, checkpoint.ErrMissing)
	}
	d.bases[e].damaged = true
	return nil
}
