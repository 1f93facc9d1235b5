// Package sim runs whole jobs in simulated time against a world that breaks, and compares what arrives at the destinations
// with what an undisturbed run of the same input gives.
//
// One seed draws a [Scenario] (rules, silences, partitions, events that come late or are no events, the configuration of the job) and
// the faults of its [world]: crashes at every point that the packages name, replies that are lost, destinations that are
// slow, fail over to an older state or forget their owner, a store that has no room for a while. Between two lives of the
// job everything but the world is gone.
//
// A seed that fails prints the line that runs it again.
package sim
