// Package rules finds, reads and compiles the rules of a service.
//
// There is one type: a [Set] is a compiled set of rules together with the files that it came from. [Load] makes one from
// files and directories on disk, [LoadFS] from a file system inside the program.
//
//	set, diagnostics, err := rules.Load([]string{"rules"})
//	if err != nil {
//		return err // a path that is not there, a file that cannot be read
//	}
//	if set == nil {
//		return diagnostics // mistakes in the rules, all of them
//	}
//
// # Concurrency
//
// A Set is immutable and may be shared by goroutines. Its ReadFile opens files anew and may be called from several.
//
// # Cost
//
// Load reads every file into memory once; [MaxFiles] and the size limit of package patterns bound that.
//
// # Caveats
//
// A rule can name files (lists, maps, recorded events of its tests). They are looked for relative to the rule's own file
// and must lie inside one of the directories that were loaded; a symbolic link does not lead out of it.
package rules
