package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"time"
)

// options are those of a single run.
type options struct {
	work, variant, file string
	// heapProfile is where what is held at the end of the input is written to; "" for nowhere.
	heapProfile string
	warm, limit int
	rules       int
	window      int64
	// interval is the time between the epochs of a job, shards the number of its goroutines that run rules (0: one for each
	// processor), state where its state is left, every the number of events between two barriers of -variant pauses.
	interval time.Duration
	shards   int
	state    string
	every    int
}

func main() {
	var o options
	var s suite
	var gen, profile string
	var elements, jobs, soaking, timing bool
	var seconds int
	flag.StringVar(&o.work, "w", "", "run one workload, w1, w2, w5 or starts, and print its line")
	flag.StringVar(&o.variant, "variant", "cepd", "cepd, naive, job, recover or pauses")
	flag.StringVar(&o.file, "file", "", "the input")
	flag.IntVar(&o.warm, "warm", 0, "events before the measuring begins")
	flag.IntVar(&o.limit, "limit", 1<<62, "stop after so many events")
	flag.IntVar(&o.rules, "rules", types, "w5: the number of rules")
	flag.Int64Var(&o.window, "window", 600_000, "the window of the rules in milliseconds")
	flag.DurationVar(&o.interval, "interval", time.Second, "job: the time between two epochs; 24h: none")
	flag.IntVar(&o.shards, "shards", 0, "job and pauses: goroutines that run rules; 0: one for each processor (pauses: one)")
	flag.StringVar(&o.state, "state", "", "job: the directory where the state is left behind; recover: where it is")
	flag.IntVar(&o.every, "every", 1000, "pauses: events between two barriers")
	flag.StringVar(&profile, "cpuprofile", "", "write the processor profile of a single run")
	flag.StringVar(&o.heapProfile, "memprofile", "", "write what cepd holds at the end of the input of a single run")
	flag.StringVar(&gen, "gen", "", "write the input of a workload to -file, and FILE.expect beside it")
	flag.IntVar(&s.events, "events", 0, "events of an input in all; 0: 1,000,000, and 50,000,000 of a soak")
	flag.IntVar(&s.live, "live", 0, "w2 and starts: live starts; 0: 250,000, and 1,000,000 of a soak and where epochs are measured")
	flag.BoolVar(&elements, "elements", false, "the cost of each element of the language as its load grows")
	flag.StringVar(&s.element, "element", "", "only elements whose names contain this")
	flag.BoolVar(&jobs, "jobs", false, "jobs beside replays, what epochs cost, and how long a start takes")
	flag.BoolVar(&timing, "latency", false, "from the event that completes a match to the alert in Redis")
	flag.IntVar(&seconds, "seconds", 30, "how long -latency sends events, each way")
	flag.BoolVar(&soaking, "soak", false, "a job over keys that never come back: what it holds as it goes on")
	flag.IntVar(&s.repeat, "repeat", 3, "how often each program runs: the run that took the middle processor time counts")
	flag.StringVar(&s.dir, "dir", "", "where inputs are kept from run to run; default: a directory that is removed")
	flag.StringVar(&s.reference, "reference", "../shared/reference", "the prototypes, run where they are there")
	flag.Parse()
	s.window = o.window
	soakSize := shape{Events: cmp.Or(s.events, soakEvents), Live: cmp.Or(s.live, soakLive), Window: o.window}
	s.held = cmp.Or(s.live, 1_000_000)
	s.events, s.live = cmp.Or(s.events, 1_000_000), cmp.Or(s.live, 250_000)
	w := os.Stdout
	var err error
	switch {
	case gen != "":
		_, err = generate(gen, o.file, shape{Events: s.events, Live: s.live, Window: o.window})
	case o.work != "":
		err = runOne(o, profile)
	case elements:
		err = runElements(w, s.element, s.repeat)
	case jobs:
		err = s.jobs(w)
	case timing:
		err = latency(w, o, time.Duration(seconds)*time.Second)
	case soaking:
		err = soak(w, o, soakSize)
	default:
		err = s.everything(w, o, time.Duration(seconds)*time.Second)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// everything prints all tables but that of a soak, which takes as long as they do together.
func (s suite) everything(w io.Writer, o options, seconds time.Duration) error {
	if err := s.run(w); err != nil {
		return err
	}
	if err := s.jobs(w); err != nil {
		return err
	}
	if err := latency(w, o, seconds); err != nil {
		return err
	}
	return runElements(w, s.element, 1)
}

// programs are those that run one input, by -variant.
var programs = map[string]func(options, *meter) error{
	"cepd": runCEPD, "naive": runNaive, "job": runDurable, "recover": runRecover, "pauses": runPauses,
}

// runOne runs one program on one input, checks what it found and prints its line.
func runOne(o options, profile string) error {
	program := programs[o.variant]
	if program == nil {
		return fmt.Errorf("variant %q: there are cepd, naive, job, recover and pauses", o.variant)
	}
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	var m meter
	if err := program(o, &m); err != nil {
		return err
	}
	if o.state == "" { // with one, the end is not awaited
		if err := check(o, m.outputs); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(os.Stdout, m.line(o.work, o.variant))
	return err
}

// check compares the number of matches with what the input's generator says, where it says anything.
func check(o options, outputs int) error {
	f, err := os.Open(o.file + ".expect")
	if err != nil {
		return nil //nolint:nilerr // an input from elsewhere
	}
	defer func() { _ = f.Close() }() // it was only read
	e, events, err := readExpect(f)
	if err != nil {
		return err
	}
	want, known := e.at(min(o.limit, events), events)
	if o.work == "w5" && o.rules == 1 {
		want, known = e.one, o.limit >= events
	} else if o.work == "w5" && o.rules != types {
		known = false
	}
	if known && outputs != want {
		return fmt.Errorf("%s by %s: %d matches in %d events, exactly %d are there", o.work, o.variant, outputs, min(o.limit, events), want)
	}
	return nil
}
