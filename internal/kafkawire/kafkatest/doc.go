// Package kafkatest gives tests a Kafka to talk to: a real broker, started from its jars in a directory of the test, and
// kfake, a fake in the test's own process.
//
// A [Cluster] is either of them; [Each] runs a test on both. A [Broker] is the real one, of one or three nodes, that can be
// killed, stopped, paused and started again. A [Fake] can be told to answer with errors. A [Proxy] stands before either
// and loses the requests or the answers that a test names. A [Log] is a partition of a known content, made for readers:
// aborted transactions, compacted ones, every codec.
//
//	func TestMain(m *testing.M) { os.Exit(kafkatest.Run(m)) }
//
//	func TestRead(t *testing.T) {
//		kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
//			log := kafkatest.Aborted(t, c)
//			// read log.Topic at c.Addresses: exactly log.Records must come
//		})
//	}
//
// The tests of one process share one broker, which [Run] ends: their topics have names of their own. Several packages share
// the one of a [Lender], where their processes were started with it. A test that harms its broker takes one for itself with
// [Start]. Without Java or the jars, tests on the real broker are skipped with a line
// that says what is missing.
//
// # Concurrency
//
// The methods of a Cluster and of a Proxy may be called from any goroutine, but for those that start and end nodes, which
// belong to one.
//
// # Cost
//
// A broker takes two to four seconds to start, on a machine that has never had one half a minute more, and 200 MB of memory. The
// fake takes a millisecond.
//
// # Caveats
//
// The fake is not a broker: see [Fake] for what it does otherwise. On systems other than Linux a test process that is
// killed leaves its broker behind.
package kafkatest
