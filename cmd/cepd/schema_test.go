package main

import (
	"bytes"
	"os"
	"testing"
)

// The schema of alerts that the program prints is the one that the documentation shows.
func TestAlertSchema(t *testing.T) {
	documented, err := os.ReadFile("../../docs/format/alert.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(documented, alertSchema) {
		t.Error("cmd/cepd/alert.schema.json is not docs/format/alert.schema.json: copy it")
	}
}
