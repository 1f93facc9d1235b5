package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/internal/kafkawire"
)

const (
	// lookEvery is how often trouble is looked for: as often as silence is.
	lookEvery = time.Second
	// refreshEvery is how long a new partition waits to be found. It is shorter than lateness usually is: what comes first in a
	// new partition is not late because another one is busy. Asking costs a broker next to nothing.
	refreshEvery = 2 * time.Second
	// partitionsMax is the number of partitions of a stream above which a pattern is taken for a mistake: one answer waits for
	// each in memory, and a broker has some thousand.
	partitionsMax = 10_000
)

// Config says what to read.
type Config struct {
	// Stream is the stream of the events, Partitions gives out its partitions.
	Stream     string
	Partitions *source.Partitions
	// Kafka is the cluster.
	Kafka kafkawire.Config
	// Topics are names; Pattern is a regular expression that names match as a whole. One of the two is given. Kafka's own
	// topics match no pattern.
	Topics  []string
	Pattern string
	// Numbers are those of the partitions that this instance reads of each topic; nil: all.
	Numbers []int32
	// Group is where the job begins on its first start, if the group has been there, and which is told how far the job is; "":
	// none.
	Group string
	// MaxRecord is the size of the largest value; [source.MaxRecord] where it is 0.
	MaxRecord int
	// Finite ends each partition where its last transaction that has ended ends now: it does not wait for more.
	Finite bool
	// AcceptGap lets each partition that begins where the log does not reach begin at the end of the log that is nearest: a
	// person has decided that what is missing may be.
	AcceptGap bool
	// Logger is told where that was done; nil: nobody.
	Logger *slog.Logger
	// Fetch bounds what is read ahead; zero values are defaults.
	Fetch kafkawire.FetcherConfig
}

// complete fills in defaults and returns everything that is wrong.
func (c *Config) complete() (*regexp.Regexp, error) {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	var pattern *regexp.Regexp
	switch {
	case len(c.Topics) > 0 && c.Pattern != "":
		wrong("topics and a pattern are given: one of them says what to read")
	case c.Pattern != "":
		var err error
		if pattern, err = regexp.Compile(`\A(?:` + c.Pattern + `)\z`); err != nil {
			wrong("pattern %q: %w", c.Pattern, err)
		}
	case len(c.Topics) == 0:
		wrong("no topic is named")
	}
	c.Topics = slices.Clone(c.Topics)
	slices.Sort(c.Topics)
	c.Topics = slices.Compact(c.Topics)
	for _, n := range c.Numbers {
		if n < 0 {
			wrong("partition %d: numbers begin at 0", n)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxRecord <= 0 {
		c.MaxRecord = source.MaxRecord
	}
	return pattern, errors.Join(errs...)
}

// Source implements [source.Source], and [source.Committer].
type Source struct {
	config  Config
	pattern *regexp.Regexp
	client  *kafkawire.Client
	fetcher *kafkawire.Fetcher
	// failed has room for the first error that no waiting mends.
	failed chan error
	// topics are those that were found, by name, with all of their partitions.
	topics map[string]kafkawire.Topic

	start sync.Once
	end   context.CancelFunc
	ran   sync.WaitGroup
}

// New makes a Source. It connects to nothing yet.
func New(c Config) (*Source, error) {
	pattern, err := c.complete()
	if err != nil {
		return nil, err
	}
	client, err := kafkawire.NewClient(c.Kafka)
	if err != nil {
		return nil, err
	}
	return &Source{
		config: c, pattern: pattern, client: client, fetcher: client.NewFetcher(c.Fetch),
		failed: make(chan error, 1), topics: map[string]kafkawire.Topic{},
	}, nil
}

// Watch implements [source.Source]. Names that are known already need none to be looked for: a partition's name is its own.
func (s *Source) Watch(ctx context.Context, _ []string, d source.Discovery) error {
	s.run()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	told := trouble{to: d}
	var (
		ready   bool
		refresh time.Time
		listing error
	)
	for {
		if now := time.Now(); !now.Before(refresh) {
			var readers []*Reader
			var fatal error
			readers, listing, fatal = s.find(ctx)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case fatal != nil:
				return fatal
			}
			_, missing := errors.AsType[*missingError](listing)
			if missing && s.config.Finite || !ready && !missing && listing != nil && !kafkawire.Retriable(listing) {
				return listing // a name, a password, a certificate: nobody has read anything yet
			}
			for _, r := range readers {
				d.Found(r)
			}
			if !ready && (listing == nil || missing) {
				ready = true
				d.Ready()
			}
			if ready && s.config.Finite {
				told.tell(nil)
				return nil
			}
			if refresh = now.Add(refreshEvery - lookEvery/2); listing != nil {
				refresh = now.Add(lookEvery / 2)
			}
		}
		told.tell(errors.Join(listing, s.fetcher.Trouble()))
		select {
		case <-look.C:
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run starts the fetcher.
func (s *Source) run() {
	s.start.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		s.end = cancel
		s.ran.Go(func() { _ = s.fetcher.Run(ctx) }) // it ends with ctx and no other way
	})
}

// Close implements [source.Source].
func (s *Source) Close() error {
	s.start.Do(func() {}) // nothing is started any more
	if s.end != nil {
		s.end()
	}
	s.ran.Wait()
	s.client.Close()
	return nil
}

// fail takes note of an error of a reader that no waiting mends.
func (s *Source) fail(err error) {
	select {
	case s.failed <- err:
	default: // another one has ended it
	}
}

// offsetNote stands beside offsets in a group that are those of a job: they may be told from what others have left.
const offsetNote = "cepd"

// Committed implements [source.Committer]. A group that has members belongs to them, and refuses.
func (s *Source) Committed(ctx context.Context, at map[string]int64) error {
	if s.config.Group == "" || len(at) == 0 {
		return nil
	}
	offsets := make(map[kafkawire.TopicPartition]int64, len(at))
	for name, offset := range at {
		p, err := ParsePartition(name)
		if err != nil {
			return err
		}
		offsets[p] = offset
	}
	err := s.client.Commit(ctx, s.config.Group, offsetNote, offsets)
	if errors.Is(err, kafkawire.CodeUnknownMember) {
		return fmt.Errorf("note offsets in group %s: others are members of it, and the offsets are theirs; name another group: %w",
			s.config.Group, err)
	}
	if err != nil {
		return fmt.Errorf("note offsets in group %s: %w", s.config.Group, err)
	}
	return nil
}

// goneError says that what was to be read is not there any more, and what a person may decide.
type goneError struct {
	err  error
	next string
}

func (e *goneError) Error() string {
	return e.err.Error() + "; start with --accept-gap to go on " + e.next
}
func (e *goneError) Unwrap() []error { return []error{e.err, source.ErrGone} }

// name is that of a partition.
func name(topic string, number int32) string { return topic + "/" + strconv.Itoa(int(number)) }

// ParsePartition reads the name of a partition, TOPIC/NUMBER.
func ParsePartition(name string) (kafkawire.TopicPartition, error) {
	topic, text, ok := strings.Cut(name, "/") // names of topics have no slash
	number, err := strconv.ParseUint(text, 10, 31)
	if !ok || err != nil || topic == "" {
		return kafkawire.TopicPartition{}, fmt.Errorf("partition %q: not of the form TOPIC/NUMBER", name)
	}
	return kafkawire.TopicPartition{Topic: topic, Partition: int32(number)}, nil
}

// trouble tells a discovery what is wrong when that changes, and when it has been so at two looks: a leader that moves is
// none.
type trouble struct {
	to         source.Discovery
	seen, told string
}

func (t *trouble) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if (text == "" || t.seen != "") && text != t.told {
		t.told = text
		t.to.Trouble(err)
	}
	t.seen = text
}
