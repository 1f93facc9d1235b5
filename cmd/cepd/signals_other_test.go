//go:build !unix

package main

import "os"

var pauses map[string]os.Signal
