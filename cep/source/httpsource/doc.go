// Package httpsource takes events over HTTP into logs (package eventlog), and answers when they are durable.
//
// A [Handler] answers `POST /v1/streams/{name}/events`. A body is a JSON object, a list of objects, or JSON lines; gzip is
// understood. A request is taken whole or not at all, unless it asks for less ([RFC 7240]: `Prefer: handling=lenient`).
// `Idempotency-Key` names a request, and a member of the event may name the event, so that a repetition counts once.
//
//	h := httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"auth": {Log: log}}})
//	mux.Handle(httpsource.Prefix, h)
//
// Refusals are problem details ([RFC 9457]). docs/inputs.md has the whole of it. Who may send is not decided here.
//
// # Concurrency
//
// A Handler may be shared.
//
// # Cost
//
// A body is read whole, and checked once; the bodies of all requests take 256 MiB together at most. Requests that wait at the same time
// share one fsync.
//
// # Caveats
//
// A request whose connection breaks may have been taken: who repeats it needs a key or ids.
//
// [RFC 7240]: https://www.rfc-editor.org/rfc/rfc7240
// [RFC 9457]: https://www.rfc-editor.org/rfc/rfc9457
package httpsource
