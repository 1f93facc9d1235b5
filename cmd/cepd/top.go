package main

import (
	"context"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cepd/cepd/rules/rulesapi"
)

const (
	// topEvery is the time between two looks: what an eye can follow, and little work for a job.
	topEvery = 2 * time.Second
	// topRules is how many rules are asked for at most, a page: with more the job would be busy with answering.
	topRules = rulesapi.PageMax
	// topColumns and topLines are the size of a terminal that does not say.
	topColumns, topLines = 100, 40
)

// newTop returns `cepd top`.
func newTop() *cobra.Command {
	var f clientFlags
	var once bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch a running job: rates, lag, open starts, slow rules",
		Long: `Watch a running job in the terminal: what its streams read and how far they lag, what waits for its sinks, and which
rules take most of the time, have most open, and match. Rates are those since the look before. q or Ctrl-C ends it.

Where the output is no terminal, and with --once, two looks are taken and one is printed.`,
		Example: `  # As it goes
  cepd top

  # One look, for a ticket
  cepd top --once > look.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return usagef("--every %s: 100ms is the least", every)
			}
			c, err := f.open()
			if err != nil {
				return err
			}
			screen := topScreenOf(cmd.InOrStdin(), cmd.OutOrStdout())
			if once || screen == nil {
				return topOnce(cmd, c, every)
			}
			if err := topLive(cmd.Context(), c, screen, every); err != nil {
				return clientError(cmd.ErrOrStderr(), err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "print one look and end")
	cmd.Flags().DurationVar(&every, "every", topEvery, "the time between two looks")
	f.add(cmd)
	return cmd
}

// look takes a look at a job.
func (c *remote) look(ctx context.Context) (*topLook, error) {
	l := &topLook{server: c.base.String(), at: time.Now()}
	var streams rulesapi.List[rulesapi.Stream]
	var sinks rulesapi.List[rulesapi.Sink]
	var rules rulesapi.List[rulesapi.Rule]
	for _, q := range []struct {
		path  string
		query url.Values
		to    any
	}{
		{"/streams", nil, &streams},
		{"/sinks", nil, &sinks},
		{"/rules", url.Values{"enabled": {"true"}, "limit": {strconv.Itoa(topRules)}}, &rules},
	} {
		if _, err := c.get(ctx, rulesapi.Prefix+q.path, q.query, q.to); err != nil {
			return nil, err
		}
	}
	l.streams, l.sinks, l.rules, l.more = streams.Items, sinks.Items, rules.Items, rules.Next != ""
	return l, nil
}

// topOnce prints what two looks give.
func topOnce(cmd *cobra.Command, c *remote, every time.Duration) error {
	ctx := cmd.Context()
	first, err := c.look(ctx)
	if err != nil {
		return clientError(cmd.ErrOrStderr(), err)
	}
	select {
	case <-time.After(every):
	case <-ctx.Done():
		return ctx.Err()
	}
	second, err := c.look(ctx)
	if err != nil {
		return clientError(cmd.ErrOrStderr(), err)
	}
	p := newPrinter(cmd.OutOrStdout())
	for _, line := range second.lines(first, palette{}) {
		p.printf("%s\n", line)
	}
	return p.done()
}

// topScreen is a terminal that somebody sits at.
type topScreen struct {
	in  *os.File
	out *os.File
}

// topScreenOf is the terminal of a command; nil where there is none.
func topScreenOf(in io.Reader, out io.Writer) *topScreen {
	i, ok := in.(*os.File)
	o, also := out.(*os.File)
	if !ok || !also || !isTerminal(o) || !term.IsTerminal(int(i.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &topScreen{i, o}
}

// size is asked before each drawing, so that a window may change.
func (s *topScreen) size() (columns, lines int) {
	columns, lines, err := term.GetSize(int(s.out.Fd()))
	if err != nil || columns <= 0 || lines <= 0 {
		return topColumns, topLines
	}
	return columns, lines
}

// What a terminal is told: another screen without a cursor and back, the beginning of it, the rest of a line, the rest of all.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeScreen  = "\x1b[H"
	restOfLine  = "\x1b[K\r\n"
	restOfAll   = "\x1b[J"
)

// topLive draws one look behind the other until somebody has seen enough.
func topLive(ctx context.Context, c *remote, s *topScreen, every time.Duration) error {
	before, err := c.look(ctx) // what is wrong is said before the screen is taken
	if err != nil {
		return err
	}
	state, err := term.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(s.in.Fd()), state) }()
	if _, err := io.WriteString(s.out, enterScreen); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(s.out, leaveScreen) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go quitOnKey(s.in, cancel) // reading a terminal cannot be broken off: it ends with the process, which ends with the command
	tick := time.NewTicker(every)
	defer tick.Stop()
	now, trouble := before, ""
	for {
		columns, lines := s.size()
		if err := s.draw(now.lines(before, palette{inColour(s.out)}), trouble, columns, lines); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		next, err := c.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			trouble = printable(err.Error()) // it may come back
		default:
			before, now, trouble = now, next, ""
		}
	}
}

// quitOnKey waits for q, Ctrl-C or the end of the input.
func quitOnKey(in io.Reader, quit func()) {
	defer quit()
	var key [1]byte
	for {
		if _, err := in.Read(key[:]); err != nil || key[0] == 'q' || key[0] == 'Q' || key[0] == 3 {
			return
		}
	}
}

// draw writes what fits.
func (s *topScreen) draw(text []string, trouble string, columns, lines int) error {
	if trouble != "" {
		text = append([]string{trouble}, text...)
	}
	var b []byte
	b = append(b, homeScreen...)
	for i, line := range text {
		if i == lines-1 {
			break
		}
		b = append(b, fit(line, columns)...)
		b = append(b, restOfLine...)
	}
	b = append(b, restOfAll...)
	_, err := s.out.Write(b)
	return err
}
