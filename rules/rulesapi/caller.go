package rulesapi

import (
	"context"
	"fmt"
)

// Role is what somebody may do. Each role may do what those before it may.
type Role uint8

// The roles.
const (
	// Viewer reads: rules and their state, alerts, streams, sinks.
	Viewer Role = iota + 1
	// Editor changes rules and silences.
	Editor
	// Admin makes checkpoints and takes the state out of the process.
	Admin
)

// roleNames are the roles as they are written.
var roleNames = [...]string{Viewer: "viewer", Editor: "editor", Admin: "admin"}

// String returns the role as it is written.
func (r Role) String() string {
	if r < Viewer || r > Admin {
		return "nobody"
	}
	return roleNames[r]
}

// ParseRole reads a role.
func ParseRole(s string) (Role, error) {
	for r := Viewer; r <= Admin; r++ {
		if roleNames[r] == s {
			return r, nil
		}
	}
	return 0, fmt.Errorf("there is no role %q: write viewer, editor or admin", s)
}

// Caller is who asks.
type Caller struct {
	// Name is what revisions and logs call them.
	Name string
	Role Role
	// From is the address that they ask from, for logs; it may be empty.
	From string
}

// callerKey is the key of the caller in a context.
type callerKey struct{}

// WithCaller returns a context that says who asks: authentication puts it into that of each request. Without it nobody does,
// and is refused.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns who asks.
func CallerOf(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}
