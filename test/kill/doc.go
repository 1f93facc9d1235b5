// Package kill kills real processes: the cepd binary, built with its failpoints, over real files, a bbolt store, a file and a
// real redis-server; and compares what arrives there with what an undisturbed run of the same input gives.
//
// go test ./test/kill kills at every failpoint once and ten times at random; CEPD_KILLS asks for another number, as
// make kill does. TestChanges changes rules for five seconds under load; -soak asks for longer.
package kill
