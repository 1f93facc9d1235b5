// Package watch tells when rules have changed on the disk.
//
// There is one function: [Watch] looks at the rule files below some paths, and at the lists and maps that they name, and calls
// a function each time that their content is another one.
//
//	err := watch.Watch(ctx, []string{"rules"}, watch.Options{}, func() { reload() })
//
// Directories are watched, not files: editors and deployments replace files by renaming others, or change a symbolic link
// beside them. What the file system tells counts for nothing but when to look: after a pause in the events, and besides at
// intervals, for file systems that tell nothing, the content is hashed and compared.
//
// # Concurrency
//
// Watch runs until its context ends, and calls the function in its own goroutine. It leaves none behind.
//
// # Cost
//
// A watch for each directory, and reading all of the files each time that something seems to have happened.
//
// # Caveats
//
// A file that is written in place may be seen half written where its writer takes longer than the pause. What is read then is
// refused, most likely, and looked at again when the rest is there.
package watch
