package redissink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// attemptsMax is how often one call is sent before the caller hears of it: the script may be unknown (once), and its slot may
// have moved to a node that does not know it either.
const attemptsMax = 4

// client reaches the master that holds a key.
type client struct {
	key     string
	single  *redis.Client
	cluster *redis.ClusterClient
	conns   connections
}

// dial makes a client. It connects when it is first used.
//
// The library must not repeat calls (the answer to the first would be lost, and whoever sends decides what to send), must not
// wait longer than the context, and must not put pipelines on connections of their own, which outlive a failover. Its
// maintenance notifications and its client identity are commands that not every user may give.
func dial(c *Config) (*client, error) {
	secure, err := c.TLS.config()
	if err != nil {
		return nil, err
	}
	if c.PasswordFile != "" {
		if _, err := readPassword(c.PasswordFile); err != nil {
			return nil, err
		}
	}
	cl := &client{key: c.target()}
	network := func(ctx context.Context, network, address string) (net.Conn, error) {
		return cl.conns.dial(ctx, network, address, secure)
	}
	credentials := func(context.Context) (string, string, error) {
		if c.PasswordFile == "" {
			return c.Username, c.Password, nil
		}
		password, err := readPassword(c.PasswordFile)
		return c.Username, password, err
	}
	read := answerTimeout
	if c.Replicas > 0 {
		read += c.ReplicaTimeout
	}
	const pool = 2 // one call at a time; the other one is for what the library does beside
	switch {
	case c.Cluster:
		cl.cluster = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: c.Addresses, Dialer: network, CredentialsProviderContext: credentials, TLSConfig: secure,
			MaxRetries: -1, MaxRedirects: -1, DialerRetries: 1, DialTimeout: dialTimeout, ReadTimeout: read, WriteTimeout: answerTimeout,
			ContextTimeoutEnabled: true, PoolSize: pool, PipelinePoolSize: -1, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
	case c.Sentinel != "":
		cl.single = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: c.Sentinel, SentinelAddrs: c.Addresses, SentinelUsername: c.SentinelUsername, SentinelPassword: c.SentinelPassword,
			DB: c.Database, Dialer: network, CredentialsProviderContext: credentials, TLSConfig: secure,
			MaxRetries: -1, DialerRetries: 1, DialTimeout: dialTimeout, ReadTimeout: read, WriteTimeout: answerTimeout,
			ContextTimeoutEnabled: true, PoolSize: pool, PipelinePoolSize: -1, DisableIdentity: true,
		})
	default:
		o := &redis.Options{
			Addr: c.Addresses[0], DB: c.Database, Dialer: network, CredentialsProviderContext: credentials, TLSConfig: secure,
			MaxRetries: -1, DialerRetries: 1, DialTimeout: dialTimeout, ReadTimeout: read, WriteTimeout: answerTimeout,
			ContextTimeoutEnabled: true, PoolSize: pool, PipelinePoolSize: -1, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}
		if strings.HasPrefix(o.Addr, "/") {
			o.Network = "unix"
		}
		cl.single = redis.NewClient(o)
	}
	return cl, nil
}

func readPassword(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// master returns the node that holds the key now. In a cluster everything goes to it directly: the library would send WAIT to
// any node.
func (c *client) master(ctx context.Context) (*redis.Client, error) {
	if c.cluster == nil {
		return c.single, nil
	}
	return c.cluster.MasterForKey(ctx, c.key)
}

// moved asks for a new map of the cluster after a node did not answer as its key's master would.
func (c *client) moved(ctx context.Context) {
	if c.cluster != nil {
		c.cluster.ReloadState(ctx)
	}
}

func (c *client) close() error {
	if c.cluster != nil {
		return c.cluster.Close()
	}
	return c.single.Close()
}

// connections knows the open connections, because the library does not see a context's end while it reads.
type connections struct {
	mu   sync.Mutex
	open map[*connection]struct{}
}

type connection struct {
	net.Conn
	owner *connections
}

// checkable shows the library the socket of a connection that is not encrypted, so that it notices one which the server has
// closed before it sends over it.
type checkable struct {
	*connection
	syscall.Conn
}

func (c *connections) dial(ctx context.Context, network, address string, secure *tls.Config) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	raw, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if secure != nil {
		s := secure.Clone()
		if s.ServerName == "" {
			s.ServerName, _, _ = net.SplitHostPort(address)
		}
		t := tls.Client(raw, s)
		hs, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		if err := t.HandshakeContext(hs); err != nil {
			_ = raw.Close()
			return nil, err
		}
		raw = t
	}
	n := &connection{Conn: raw, owner: c}
	c.mu.Lock()
	if c.open == nil {
		c.open = map[*connection]struct{}{}
	}
	c.open[n] = struct{}{}
	c.mu.Unlock()
	if socket, ok := raw.(syscall.Conn); ok {
		return checkable{n, socket}, nil
	}
	return n, nil
}

// Close closes the connection. One that is closed already is what was asked for: whoever cuts connections and the library may do
// so at once.
func (c *connection) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	if err := c.Conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// cut closes all of them, so that whoever reads comes back.
func (c *connections) cut() {
	c.mu.Lock()
	all := make([]*connection, 0, len(c.open))
	for n := range c.open {
		all = append(all, n)
	}
	c.mu.Unlock()
	for _, n := range all {
		_ = n.Close()
	}
}
