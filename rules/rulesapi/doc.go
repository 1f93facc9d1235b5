// Package rulesapi is the HTTP interface of a running service: its rules, what they have found, and how it is.
package rulesapi
