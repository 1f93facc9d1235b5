package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/cepd/cepd/cep/source"
)

// progressEvery is the time between two drawings: what an eye can follow, and no cost.
const progressEvery = 200 * time.Millisecond

// progress is a bar over the bytes of all files, on a terminal; nil shows nothing.
type progress struct {
	bar     *progressbar.ProgressBar
	readers []source.Reader
	next    time.Time // when to draw again
	shown   bool
}

func newProgress(w io.Writer, readers []source.Reader) *progress {
	if !isTerminal(w) {
		return nil
	}
	var total int64
	for _, r := range readers {
		_, n := r.Progress()
		if n < 0 {
			total = -1 // nobody knows how much standard input holds: the bar only shows that something happens
			break
		}
		total += n
	}
	p := &progress{
		bar: progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetDescription("replay"),
			progressbar.OptionShowBytes(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30),
			progressbar.OptionEnableColorCodes(inColour(w)),
		),
		readers: readers,
	}
	p.show() // the rate is counted from the first drawing
	return p
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
	var read int64
	for _, r := range p.readers {
		n, _ := r.Progress()
		read += n
	}
	_ = p.bar.Set64(read) // a bar that cannot be drawn is no reason to stop
}

// hide takes the bar away until it is shown again.
func (p *progress) hide() {
	if p != nil && p.shown {
		_ = p.bar.Clear() // as above
		p.shown = false
	}
}
