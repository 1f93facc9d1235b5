package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"os"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"
)

// grow writes a file that no script could hold: grow FILE BEFORE REPEATED TIMES AFTER.
func grow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: grow FILE BEFORE REPEATED TIMES AFTER")
	}
	n, err := strconv.Atoi(args[3])
	ts.Check(err)
	unescape := strings.NewReplacer(`\n`, "\n", `\0`, "\x00", `\xff`, "\xff").Replace
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(unescape(args[1]+strings.Repeat(args[2], n)+args[4])), 0o600))
}

// compress writes files in another form: compress gzip|zstd|zip TARGET FILE...
func compress(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || args[0] != "zip" && len(args) != 3 {
		ts.Fatalf("usage: compress gzip|zstd|zip TARGET FILE...")
	}
	var out bytes.Buffer
	switch args[0] {
	case "gzip":
		w := gzip.NewWriter(&out)
		_, err := w.Write([]byte(ts.ReadFile(args[2])))
		ts.Check(err)
		ts.Check(w.Close())
	case "zstd":
		w, err := zstd.NewWriter(&out)
		ts.Check(err)
		_, err = w.Write([]byte(ts.ReadFile(args[2])))
		ts.Check(err)
		ts.Check(w.Close())
	case "zip":
		w := zip.NewWriter(&out)
		for _, name := range args[2:] {
			f, err := w.Create(name)
			ts.Check(err)
			_, err = f.Write([]byte(ts.ReadFile(name)))
			ts.Check(err)
		}
		ts.Check(w.Close())
	default:
		ts.Fatalf("unknown form %q", args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), out.Bytes(), 0o600))
}
