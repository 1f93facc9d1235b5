package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/cepd/cepd/cep/source"
)

// progressEvery is the time between two drawings: what an eye can follow, and no cost.
const progressEvery = 200 * time.Millisecond

// progressOf says what a bar is about.
type progressOf struct {
	what  string
	total int64 // -1: nobody knows, and the bar only shows that something happens
	bytes bool  // they are bytes
	done  func() int64
}

// progress is a bar on a terminal; nil shows nothing.
type progress struct {
	bar   *progressbar.ProgressBar
	done  func() int64
	next  time.Time // when to draw again
	shown bool
}

func newProgress(w io.Writer, of progressOf) *progress {
	if !isTerminal(w) {
		return nil
	}
	p := &progress{
		bar: progressbar.NewOptions64(
			of.total,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetDescription(of.what),
			progressbar.OptionShowBytes(of.bytes),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30),
			progressbar.OptionEnableColorCodes(inColour(w)),
		),
		done: of.done,
	}
	p.show() // the rate is counted from the first drawing
	return p
}

// progressOfFiles is about the bytes of all files.
func progressOfFiles(readers []source.Reader) progressOf {
	of := progressOf{what: "replay", bytes: true, done: func() (read int64) {
		for _, r := range readers {
			n, _ := r.Progress()
			read += n
		}
		return read
	}}
	for _, r := range readers {
		_, n := r.Progress()
		if n < 0 {
			of.total = -1 // standard input, or topics
			break
		}
		of.total += n
	}
	return of
}

// show draws the bar, if it is time to.
func (p *progress) show() {
	if p == nil {
		return
	}
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	p.next, p.shown = now.Add(progressEvery), true
	_ = p.bar.Set64(p.done()) // a bar that cannot be drawn is no reason to stop
}

// hide takes the bar away until it is shown again.
func (p *progress) hide() {
	if p != nil && p.shown {
		_ = p.bar.Clear() // as above
		p.shown = false
	}
}
