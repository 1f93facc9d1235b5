package redissink

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cepd/cepd/sinks"
)

// Limits of one sink.
const (
	// ReplicaTimeoutDefault and ReplicaTimeoutMax bound how long an answer waits for replicas. A batch that they have not
	// confirmed by then is published all the same, and kept in the outbox until a later answer confirms it.
	ReplicaTimeoutDefault = time.Second
	ReplicaTimeoutMax     = 30 * time.Second
	// answerTimeout is how long a server may take for an answer beyond the wait for replicas, and dialTimeout how long a
	// connection may take. What is longer is a server that hangs: the batch is sent again.
	answerTimeout = 3 * time.Second
	dialTimeout   = 3 * time.Second
	// nameMax bounds the names of the job, the sink and the keys: they stand in every call.
	nameMax = 512
)

// Config says where a sink writes and what.
type Config struct {
	// Job and Name are whose position is kept: two sinks of the same job and name own the same position, and the one that
	// opened last is the owner.
	Job, Name string

	// Addresses are the server (host:port, or the path of a unix socket). With Cluster they are nodes of a Redis Cluster,
	// of which any may be away; with Sentinel they are sentinels that watch the master of that name.
	Addresses []string
	Cluster   bool
	Sentinel  string
	// Database is the number of the database; 0 in a cluster.
	Database int
	// Username is the ACL user; "" is the default user. The password is read from PasswordFile at each new connection, so
	// it can be changed while the sink runs, or is Password.
	Username, Password, PasswordFile string
	// SentinelUsername and SentinelPassword are for the sentinels themselves.
	SentinelUsername, SentinelPassword string
	// TLS, where it is not nil, encrypts all connections.
	TLS *TLS

	// Guarantee says whether a position is kept at the server. Without one (at least once, at most once) the stream may have
	// other writers too: its ids are those that the server gives.
	Guarantee sinks.Guarantee
	// Stream or List is the key that messages are appended to: one of them. A stream is the better one: its ids are a second
	// witness of the position.
	Stream, List string
	// Channel, where it is not "", is where the bodies are published too, at most once each.
	Channel string
	// MaxLen, where it is not 0, keeps about so many of the newest entries (a list: exactly).
	MaxLen int64
	// MaxAge, where it is not 0, drops entries of the stream that were appended longer ago.
	MaxAge time.Duration

	// Replicas, where it is not 0, is how many replicas must have a message before it counts as acknowledged; each answer
	// waits for them up to ReplicaTimeout.
	Replicas       int
	ReplicaTimeout time.Duration

	// Format is what the bodies are; Source is the source of CloudEvents, "" for that of the job.
	Format sinks.Format
	Source string

	Logger *slog.Logger
}

// TLS names the files of a TLS connection.
type TLS struct {
	// CA is a file of certificates to trust; "": those of the system. Cert and Key are our own certificate, "" for none.
	CA, Cert, Key string
	// ServerName is the name that the server's certificate must have; "": the host of the address.
	ServerName string
}

// check reports every mistake.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, n := range []struct{ what, name string }{{"job", c.Job}, {"name", c.Name}} {
		if n.name == "" || len(n.name) > nameMax || strings.Contains(n.name, "/") {
			bad("%s %q: must be 1 to %d bytes without a slash, because the position's key is made of it", n.what, n.name, nameMax)
		}
	}
	switch {
	case len(c.Addresses) == 0:
		bad("addresses: none; give at least one, such as 127.0.0.1:6379")
	case len(c.Addresses) > 1 && !c.Cluster && c.Sentinel == "":
		bad("addresses: more than one is for a cluster or for sentinels; say which")
	}
	if c.Cluster && c.Sentinel != "" {
		bad("a cluster has no sentinels; name one of the two")
	}
	if c.Database < 0 || c.Cluster && c.Database != 0 {
		bad("database %d: must be 0 or more, and 0 in a cluster", c.Database)
	}
	if c.Password != "" && c.PasswordFile != "" {
		bad("password and password file: give one of the two")
	}
	if (c.Stream == "") == (c.List == "") {
		bad("stream, list: give exactly one of the two")
	} else if _, err := tag(c.target()); err != nil {
		errs = append(errs, err)
	}
	if len(c.Channel) > nameMax {
		bad("channel: must be at most %d bytes", nameMax)
	}
	if c.MaxLen < 0 {
		bad("max length %d: must be 1 or more, or absent to keep everything", c.MaxLen)
	}
	switch {
	case c.MaxAge < 0:
		bad("max age %s: must be above 0, or absent to keep everything", c.MaxAge)
	case c.MaxAge > 0 && c.Stream == "":
		bad("max age: a list does not know the age of its elements; use a stream, or a max length")
	case c.MaxAge > 0 && c.MaxLen > 0:
		bad("max length and max age: give one of the two")
	}
	if c.Replicas < 0 {
		bad("replicas %d: must be 0 or more", c.Replicas)
	}
	if c.Replicas > 0 && c.Guarantee != sinks.ExactlyOnce {
		bad("replicas %d: without a position at the server nothing can be sent again behind a failover; leave it out, or choose %s", c.Replicas, sinks.ExactlyOnce)
	}
	if c.ReplicaTimeout < 0 || c.ReplicaTimeout > ReplicaTimeoutMax {
		bad("replica timeout %s: must be 1ms to %s; the sink answers nothing else meanwhile", c.ReplicaTimeout, ReplicaTimeoutMax)
	}
	return errors.Join(errs...)
}

// target is the key that messages are appended to.
func (c *Config) target() string {
	if c.Stream != "" {
		return c.Stream
	}
	return c.List
}

// tag returns the part of a key by which a cluster chooses its slot, so that the position's key can have the same. That key
// holds it in braces, and so it must have none itself.
func tag(key string) (string, error) {
	if key == "" || len(key) > nameMax {
		return "", fmt.Errorf("key %q: must be 1 to %d bytes", key, nameMax)
	}
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if t, _, ok := strings.Cut(rest, "}"); ok && t != "" {
			key = t
		}
	}
	if strings.ContainsAny(key, "{}") {
		return "", fmt.Errorf("key %q: has braces that are no hash tag; write {tag} around a part of the name, or leave them out", key)
	}
	return key, nil
}

// config returns the settings of a connection.
func (t *TLS) config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificates to trust: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the certificates to trust: %s holds no certificate in PEM", t.CA)
		}
	}
	if t.Cert != "" || t.Key != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("read our certificate and its key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// newToken names this process as the owner: where it runs for people, and random bytes because only they are unique.
func newToken() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text())
}
