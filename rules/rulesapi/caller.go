package rulesapi

import (
	"context"
	"slices"
)

// Role is what somebody may do. Each role may do what those before it may.
type Role uint8

// The roles.
const (
	// NoRole may do nothing.
	NoRole Role = iota
	// Viewer reads: rules and their state, alerts, streams, sinks.
	Viewer
	// Editor changes rules and silences.
	Editor
	// Admin makes checkpoints and takes the state out of the process.
	Admin
)

// roleNames are the roles as they are written.
var roleNames = [...]string{NoRole: "nobody", Viewer: "viewer", Editor: "editor", Admin: "admin"}

// String returns the role as it is written.
func (r Role) String() string {
	if int(r) >= len(roleNames) {
		return "nobody"
	}
	return roleNames[r]
}

// ParseRole reads a role; ok is false where there is none of the name.
func ParseRole(s string) (_ Role, ok bool) {
	i := slices.Index(roleNames[:], s)
	return Role(max(i, 0)), i > 0
}

// RoleNames are the roles as they are written, the one that may least first.
func RoleNames() []string { return slices.Clone(roleNames[Viewer:]) }

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
