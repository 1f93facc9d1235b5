package job

// The points at which a crash is tried. Each is reached in any run that sends an alert, but for those that say when.
const (
	PointSwapping  = "job.swapping"  // before another set of rules takes over in a running job
	PointSwapped   = "job.swapped"   // another set has taken over, no epoch knows it: so, or on a start with other rules
	PointStarted   = "job.started"   // all is restored, before the first record is read
	PointBarrier   = "job.barrier"   // before a barrier
	PointCut       = "job.cut"       // the engine has handed over its part of an epoch
	PointPrepared  = "job.prepared"  // an epoch is complete in memory
	PointCommitted = "job.committed" // an epoch is durable, no sink has been told
	PointTold      = "job.told"      // the sinks have been told of an epoch
	PointBegun     = "job.begun"     // before a new lineage is noted: with a savepoint, or an accepted repetition
	PointConfirmed = "job.confirmed" // a sink has confirmed a position, which no epoch knows
	PointTrimmed   = "job.trimmed"   // before sources forget what no epoch needs: with sources that can
	PointStopping  = "job.stopping"  // nothing is read any more, before the last epoch: at an orderly end
	PointPublished = "job.published" // all is published, before that is durable: at an orderly end
	PointEnded     = "job.ended"     // all is done, before goroutines end: at an orderly end

	PointSwapPrepared  = "job.swap-prepared"  // the first epoch under another set is complete in memory: in a running job
	PointSwapCommitted = "job.swap-committed" // it is durable, nobody has been told: likewise
)

// Failpoints lists all points, about in the order in which they come.
func Failpoints() []string {
	return []string{
		PointSwapping, PointSwapped, PointStarted, PointBarrier, PointCut, PointPrepared, PointSwapPrepared, PointCommitted,
		PointSwapCommitted, PointTold, PointBegun,
		PointConfirmed, PointTrimmed, PointStopping, PointPublished, PointEnded,
	}
}
