// Package httpsource takes events over HTTP into logs (package eventlog), and answers when they are durable.
package httpsource
