// Package storetest is the suite that every checkpoint store passes.
//
// There are two types. A [World] is what outlives a process that uses a store: the suite opens it, crashes it and spoils it.
// [Run] holds a store against a model of plain maps: by cases, and by random histories of commits, restores, rewinds,
// maintenance, crashes and damage.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(dir string) storetest.World { return newWorld(dir) })
//	}
//
// Further worlds behind the first, whose stores keep more or less, are drawn by the histories as well.
//
// [Cleanup] lets every other test that uses a store end with a check of all that it holds.
//
// Cost: a few seconds, most of it syncs.
package storetest
