// Package fuzz holds fuzz.sh, which runs the fuzz targets of all packages for `make fuzz`, and the test that it tells a finding
// from a fault of the go command.
package fuzz
