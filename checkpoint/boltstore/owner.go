package boltstore

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// owner is who holds a store. It stands in a file beside it, so that the error of whoever comes second can name the first:
// a lock does not say whose it is. The lock decides, never this file.
type owner struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"`
}

const ownerName = "checkpoint.owner"

func writeOwner(dir string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	data, err := json.Marshal(owner{PID: os.Getpid(), Host: host, Started: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ownerName), append(data, '\n'), 0o644)
}

func removeOwner(dir string) error { return os.Remove(filepath.Join(dir, ownerName)) }

// describeOwner says who holds the store.
func describeOwner(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, ownerName))
	var o owner
	if err != nil || json.Unmarshal(data, &o) != nil {
		// Who only reads leaves no file.
		return "by another process, perhaps a `cepd checkpoint` command that reads"
	}
	return fmt.Sprintf("by process %d on %s since %s", o.PID, o.Host, o.Started.Format(time.RFC3339))
}
