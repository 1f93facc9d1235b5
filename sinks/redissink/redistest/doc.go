// Package redistest runs real Redis and Valkey servers for tests: kill and restart them, make replicas and promote them,
// build a cluster, and cut the connections to them.
//
// A [Server] is one process with a directory of its own. [Programs] lists the servers that this machine has; [Each] runs a
// test on all of them. A [Proxy] stands between a client and a server and loses what it is told to lose. A [Cluster] is a
// few servers that share the slots.
//
//	redistest.Each(t, func(t *testing.T, p redistest.Program) {
//		s := redistest.Start(t, p, "--appendonly", "yes")
//		s.Must(t, "SET", "a", "1")
//		s.Kill()
//		s.Restart(t)
//	})
//
// Everything that is started here ends with its test, killed by its own process id. Nothing outside is touched: ports are
// free ones of the loopback address, directories those of the test.
//
// # Concurrency
//
// The methods of a Server may be called from any goroutine, but for Kill and Restart, which belong to one.
package redistest
