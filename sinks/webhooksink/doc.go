// Package webhooksink posts alerts to an HTTP receiver, at least once.
//
// A [Sink] sends each message in a request of its own, or some of them as a JSON array, in order, one request at a time:
//
//	sink, err := webhooksink.New(webhooksink.Config{URL: "https://example.org/hook", SecretFile: "/run/secrets/hook"})
//
// A request carries the headers of the Standard Webhooks: Webhook-Id (the alert's id, by which a receiver drops what it has
// already), Webhook-Timestamp, and Webhook-Signature where there is a secret ([Sign]); and Cepd-Sequence, the lineage and the
// number of its last message. docs/sinks.md says which answers mean what.
//
// # Concurrency
//
// As package sinks says.
//
// # Cost
//
// A round trip for each request: throughput is the size of a request over its latency. One connection is kept.
//
// # Caveats
//
// A receiver that took a request and whose answer was lost gets it again. Proxies are not used. Addresses that are not public
// are refused unless they are allowed, at the moment of dialling: a name that leads inside does not help, and neither does a
// redirect.
package webhooksink
