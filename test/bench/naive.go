package main

import (
	"bufio"
	"container/heap"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
)

// runNaive is what one writes in an afternoon: encoding/json into a map, expr's machine on it, a map from keys to what is
// open and a heap by when it ends, alerts by encoding/json. It runs w1 and w2.
func runNaive(o options, m *meter) error {
	first, second, need := `type == "login_failed" && amount > 100`, `type == "transfer"`, 1
	switch o.work {
	case "w1":
		first, second, need = `type == "login_failed"`, `type == "login_ok"`, 5
	case "w2":
	default:
		return fmt.Errorf("the naive program runs w1 and w2, not %s", o.work)
	}
	n := &naive{window: o.window, need: need, open: map[string]*attempt{}}
	for text, p := range map[string]**vm.Program{first: &n.first, second: &n.second} {
		var err error
		if *p, err = expr.Compile(text, expr.Env(map[string]any{"type": "", "amount": 0.0}), expr.AsBool()); err != nil {
			return err
		}
	}
	f, err := os.Open(o.file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	m.prepare()
	m.start(0)
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 64<<10), 1<<20)
	count := 0
	for count < o.limit && lines.Scan() {
		if count == o.warm && count > 0 {
			m.start(count)
		}
		count++
		if err := n.event(lines.Bytes()); err != nil {
			return err
		}
	}
	m.stop(count)
	m.outputs = n.matches
	m.heapEnd = heapMB()
	m.heapIdle = m.heapEnd // it has no clock but its events
	m.note = fmt.Sprintf("live %d", len(n.open))
	runtime.KeepAlive(n)
	return lines.Err()
}

type naive struct {
	window        int64
	need          int
	first, second *vm.Program
	vm            vm.VM
	open          map[string]*attempt
	ends          attempts
	matches       int
}

// attempt is what is open for a key: its first steps, oldest first.
type attempt struct {
	key    string
	events []map[string]any
	index  int
}

func (a *attempt) since() int64 { return int64(a.events[0]["ts"].(float64)) }

func (n *naive) event(line []byte) error {
	var ev map[string]any
	if err := json.Unmarshal(line, &ev); err != nil {
		return err
	}
	n.expire(int64(ev["ts"].(float64)))
	key := ev["src_ip"].(string)
	if yes, err := n.vm.Run(n.first, ev); err != nil {
		return err
	} else if yes.(bool) {
		a := n.open[key]
		if a == nil {
			a = &attempt{key: key}
			n.open[key] = a
			a.events = append(a.events, ev)
			heap.Push(&n.ends, a)
			return nil
		}
		a.events = append(a.events, ev)
		return nil
	}
	if yes, err := n.vm.Run(n.second, ev); err != nil {
		return err
	} else if yes.(bool) {
		if a := n.open[key]; a != nil && len(a.events) >= n.need {
			n.matches++
			if err := n.alert(a, ev); err != nil {
				return err
			}
			delete(n.open, key)
			heap.Remove(&n.ends, a.index)
		}
	}
	return nil
}

// alert writes what cepd's alert says too: which rule, whose, when, by which events, under an id that stays.
func (n *naive) alert(a *attempt, last map[string]any) error {
	times := make([]int64, 0, len(a.events)+1)
	for _, ev := range append(a.events, last) {
		times = append(times, int64(ev["ts"].(float64)))
	}
	text := fmt.Sprint(a.key, times)
	line, err := json.Marshal(map[string]any{
		"id": fmt.Sprintf("%x", sha256.Sum256([]byte(text))), "rule": "naive", "key": a.key,
		"time": time.UnixMilli(times[len(times)-1]).UTC().Format(time.RFC3339Nano), "events": times,
	})
	if err != nil {
		return err
	}
	_, err = io.Discard.Write(line)
	return err
}

func (n *naive) expire(now int64) {
	for len(n.ends) > 0 && n.ends[0].since() < now-n.window {
		a := n.ends[0]
		if a.events = a.events[1:]; len(a.events) == 0 {
			heap.Pop(&n.ends)
			delete(n.open, a.key)
		} else {
			heap.Fix(&n.ends, 0)
		}
	}
}

// attempts is a heap by the time of the oldest step.
type attempts []*attempt

func (h attempts) Len() int { return len(h) }

// Less looks at what an attempt holds; one without events is about to be removed.
func (h attempts) Less(i, j int) bool {
	return len(h[i].events) == 0 || len(h[j].events) > 0 && h[i].since() < h[j].since()
}

func (h attempts) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *attempts) Push(x any) {
	a := x.(*attempt)
	a.index = len(*h)
	*h = append(*h, a)
}

func (h *attempts) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return a
}
