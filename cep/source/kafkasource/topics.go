package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cepd/cepd/internal/kafkawire"
)

// missingError says which topics are not there, or that there is none of a pattern. They may come.
type missingError struct {
	topics  []string
	pattern string
}

func (e *missingError) Error() string {
	if e.pattern != "" {
		return fmt.Sprintf("no topic matches %q, as a whole", e.pattern)
	}
	return "no such topic: " + strings.Join(e.topics, ", ")
}

// find looks for partitions that are not read yet and makes their readers. What keeps it from finding all may pass, or is
// fatal.
func (s *Source) find(ctx context.Context) (readers []*Reader, passing, fatal error) {
	topics, passing := s.list(ctx)
	n := 0
	for _, t := range s.topics {
		n += len(t.Partitions)
	}
	for _, t := range topics {
		was, known := s.topics[t.Name]
		if known && was.ID != t.ID {
			return nil, nil, &goneError{&kafkawire.RecreatedError{Topic: t.Name, Was: was.ID, Is: t.ID}, "with the new one"}
		}
		if known && len(was.Partitions) >= len(t.Partitions) {
			continue
		}
		if n += len(t.Partitions) - len(was.Partitions); n > partitionsMax {
			return nil, nil, fmt.Errorf("the topics have more than %d partitions: name fewer", partitionsMax)
		}
		found, err := s.readersOf(ctx, t, len(was.Partitions))
		if err != nil {
			passing = errors.Join(passing, err)
			continue // nothing of the topic is taken for found
		}
		s.topics[t.Name] = t
		readers = append(readers, found...)
	}
	return readers, passing, nil
}

// list asks for the topics that are to be read.
func (s *Source) list(ctx context.Context) ([]kafkawire.Topic, error) {
	if s.pattern != nil {
		all, err := s.client.Topics(ctx)
		if err != nil {
			return nil, fmt.Errorf("look for topics: %w", err)
		}
		topics := slices.DeleteFunc(all, func(t kafkawire.Topic) bool { return t.Internal || !s.pattern.MatchString(t.Name) })
		if len(topics) == 0 {
			return nil, &missingError{pattern: s.config.Pattern}
		}
		return topics, nil
	}
	topics, missing, err := s.client.Named(ctx, s.config.Topics)
	switch {
	case err != nil:
		return topics, fmt.Errorf("look for %s: %w", s.asked(), err)
	case len(missing) > 0:
		return topics, &missingError{topics: missing}
	}
	return topics, nil
}

// namedMax is how many topics a message names.
const namedMax = 3

// asked says which topics are looked for.
func (s *Source) asked() string {
	names := s.config.Topics
	if len(names) == 1 {
		return "topic " + names[0]
	}
	if more := len(names) - namedMax; more > 0 {
		return fmt.Sprintf("topics %s and %d more", strings.Join(names[:namedMax], ", "), more)
	}
	return "topics " + strings.Join(names, ", ")
}

// readersOf makes the readers of a topic's partitions from a number on. Where they begin and end is asked for now: what is
// read later has to begin at a number.
func (s *Source) readersOf(ctx context.Context, t kafkawire.Topic, from int) ([]*Reader, error) {
	var numbers []int32
	for _, p := range t.Partitions[from:] {
		if s.config.Numbers == nil || slices.Contains(s.config.Numbers, p.Number) {
			numbers = append(numbers, p.Number)
		}
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	starts, err := s.client.ListOffsets(ctx, t, kafkawire.Earliest, numbers...)
	if err != nil {
		return nil, fmt.Errorf("where topic %s begins: %w", t.Name, err)
	}
	ends, err := s.client.ListOffsets(ctx, t, kafkawire.Latest, numbers...)
	if err != nil {
		return nil, fmt.Errorf("where topic %s ends: %w", t.Name, err)
	}
	readers := make([]*Reader, len(numbers))
	for i, n := range numbers {
		readers[i] = s.newReader(t, n, starts[n], ends[n])
		if s.config.Finite {
			readers[i].stop = ends[n]
		}
	}
	return readers, nil
}
