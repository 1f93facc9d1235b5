package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// systemdSocket is a socket as systemd gives it to a service, and where what is told arrives.
func systemdSocket(t *testing.T) <-chan string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	addr := &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", addr)
	if err != nil {
		t.Fatal(err)
	}
	told, ended := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			told <- string(buf[:n])
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	t.Setenv("NOTIFY_SOCKET", addr.Name)
	return told
}

// await waits for something that is told, and returns what was told before it.
func await(t *testing.T, told <-chan string, part string) (before []string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case s := <-told:
			if strings.Contains(s, part) {
				return append(before, s)
			}
			before = append(before, s)
		case <-deadline:
			t.Fatalf("%q was not told, but %q", part, before)
		}
	}
}

// A start asks for time, then the daemon is ready, then it is alive until it is not, and in the end it stops.
func TestSystemd(t *testing.T) {
	told := systemdSocket(t)
	t.Setenv("WATCHDOG_USEC", "20000")
	s := &systemd{failed: func(err error) { t.Error(err) }}
	over := s.starting()
	if list := await(t, told, "EXTEND_TIMEOUT_USEC=60000000"); len(list) != 1 {
		t.Errorf("%q", list)
	}
	over()
	over()
	var dead atomic.Bool
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running(ctx, func() error {
			if dead.Load() {
				return errors.New("stuck")
			}
			return nil
		}, func() string { return "ready;\nepoch 3" })
	}()
	if list := await(t, told, "READY=1"); list[len(list)-1] != "READY=1" {
		t.Errorf("%q", list)
	}
	if list := await(t, told, "WATCHDOG=1"); list[0] != "STATUS=ready; epoch 3\nWATCHDOG=1" {
		t.Errorf("%q", list)
	}
	await(t, told, "WATCHDOG=1")
	dead.Store(true)
	for seen := 0; seen < 3; { // a look that had begun may still say so
		if list := await(t, told, "STATUS="); strings.Contains(list[len(list)-1], "WATCHDOG") {
			seen = 0
		} else {
			seen++
		}
	}
	end()
	<-ended
	s.stopping()
	await(t, told, "STOPPING=1")
}

// Without systemd nobody is told anything, and what cannot be told is said once.
func TestSystemdIsNotThere(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	said := 0
	s := &systemd{failed: func(error) { said++ }}
	s.starting()()
	s.running(t.Context(), nil, nil)
	s.stopping()
	if said > 0 {
		t.Error("an error without a socket")
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	s.stopping()
	s.stopping()
	if said != 1 {
		t.Errorf("said %d times", said)
	}
}
