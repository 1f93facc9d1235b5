// Package rulesapi is the HTTP interface of a running service: its rules, what they have found, and how it is.
//
// There are four things to know. A [Daemon] is the service that is spoken for; whoever runs a job implements it. An [API]
// answers requests, by the table of [Routes], which openapi.yaml describes; it writes the files of rules that are made over
// HTTP, and keeps what each rule said before. A [Feed] has the newest alerts, for those who ask and those who listen. A [Caller]
// is who asks: authentication comes before, and puts them into the context.
//
//	feed := rulesapi.NewFeed(newest, alert.AppendJSON) // and job.Config.Committed: feed.Committed
//	api, err := rulesapi.New(rulesapi.Config{Daemon: d, ManagedDir: "rules/managed", HistoryDir: dir, Feed: feed})
//	if err != nil {
//		return err
//	}
//	api.Observe(d.Rules())
//	e.Use(authenticate) // calls WithCaller
//	api.Register(e.Group(rulesapi.Prefix))
//
// # How a change goes
//
// Files are the truth, for people and for this package: a rule made here is a file of its own below the directory of rules.
// While nobody else changes rules, and so under one lock with reloads,
//
//  1. the precondition is asked of the file on the disk, so that an edit that no reload has seen yet is not lost;
//  2. the rules are compiled with the new text in the place of the old one; mistakes end it here, with diagnostics;
//  3. whoever keeps an audit log is asked;
//  4. the file is replaced: written under another name, synced, renamed;
//  5. the set takes over with an epoch. Where that fails the file is put back.
//
// A crash behind 4 leaves a file that has been compiled, which the next start loads as any other. Several files are replaced with
// a note of what they held, which [Recover] undoes. docs/format/revisions.md draws that and the log of revisions.
//
// # Concurrency
//
// Everything may be called from any goroutine. A live stream is the goroutine of its request and follows the feed without a
// queue of its own. [API.Run] is the only housekeeping, in the goroutine of its caller.
//
// # Cost
//
// A change compiles all rules, as a reload does. A list costs its page, the states of all rules, and once for each set a look
// through the files that have changed. Alerts are encoded once, as they become durable.
//
// # Caveats
//
// A rule in a file of people has the piece of the file as its text, which need not stand by itself: defaults and macros are
// elsewhere. Alerts are those of this process. Without [WithCaller] every request is refused.
package rulesapi
