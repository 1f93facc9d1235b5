package kafkatest

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A broker for people stands until it is felled, and keeps its data. This one ends with the test, should that be killed.
func TestStanding(t *testing.T) {
	t.Parallel()
	port, err := blockOfPorts()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	start := func() *Standing {
		t.Helper()
		s, err := stand(t.Context(), dir, port, contain)
		skipWithout(t, err)
		return s
	}
	fell := func() int {
		t.Helper()
		pid, err := Fell(dir)
		if err != nil {
			t.Error(err)
		}
		return pid
	}
	t.Cleanup(func() { fell() })
	first := start()
	client, err := kgo.NewClient(kgo.SeedBrokers(first.Address))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "kept"); err != nil {
		t.Fatal(err)
	}
	sent, err := Send(t.Context(), dir, "sent", strings.NewReader(`{"n":1}`+"\n\n"+`{"n":2}`))
	if err != nil || sent != 2 {
		t.Fatalf("%d lines sent, %v", sent, err)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(first.Address), kgo.ConsumeTopics("sent"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var got []string
	WaitFor(t, "what was sent", func() bool {
		reader.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		return len(got) == 2
	})
	if want := []string{`{"n":1}`, `{"n":2}`}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if again := start(); *again != *first {
		t.Errorf("a second start gave %v, not %v", again, first)
	}
	if pid := fell(); pid != first.Pid {
		t.Errorf("process %d ended, not %d", pid, first.Pid)
	}
	if pid := fell(); pid != 0 {
		t.Errorf("process %d ended too", pid)
	}
	if _, err := Send(t.Context(), dir, "sent", strings.NewReader("x\n")); err == nil || !strings.Contains(err.Error(), "no broker runs") {
		t.Errorf("sent to nobody: %v", err)
	}
	next := start()
	if next.Pid == first.Pid || next.Address != first.Address {
		t.Errorf("after the end %v came after %v", next, first)
	}
	WaitFor(t, "the topic", func() bool {
		topics, err := admin.ListTopics(t.Context())
		return err == nil && topics.Has("kept")
	})
}
