package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

const (
	// tellEvery is how often systemd is told what `systemctl status` shows.
	tellEvery = 10 * time.Second
	// startExtension is how much longer systemd waits for a start that restores a large state. It is told again and again, so a
	// start that hangs in one place is ended by systemd after this time.
	startExtension = time.Minute
)

// systemd is told how the daemon is, where systemd has started the process and asks for it (Type=notify).
type systemd struct {
	// failed is called with the first error; what is told is told again and again.
	failed func(error)
	once   sync.Once
}

// asked reports whether anybody wants to be told.
func (*systemd) asked() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// tell sends lines of sd_notify(3).
func (s *systemd) tell(lines ...string) {
	if _, err := sd.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		s.once.Do(func() { s.failed(err) })
	}
}

// starting asks for time until the function that it returns is called, which waits until it asks no more.
func (s *systemd) starting() (over func()) {
	if !s.asked() {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			s.tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", startExtension.Microseconds()), "STATUS=the state is being restored")
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-ended
	})
}

// running says that the daemon runs, and until ctx ends again and again that it is alive, where systemd watches that
// (WatchdogSec), and how it is. alive says why it is not: then systemd is told nothing more, and ends the process.
func (s *systemd) running(ctx context.Context, alive func() error, status func() string) {
	if !s.asked() {
		return
	}
	every := tellEvery
	watched, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		s.once.Do(func() { s.failed(err) })
	}
	if watched > 0 {
		every = min(every, watched/2)
	}
	s.tell(sd.SdNotifyReady)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		lines := []string{"STATUS=" + strings.ReplaceAll(status(), "\n", " ")}
		if watched > 0 && alive() == nil {
			lines = append(lines, sd.SdNotifyWatchdog)
		}
		s.tell(lines...)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// stopping says that the daemon ends in good order.
func (s *systemd) stopping() {
	s.tell(sd.SdNotifyStopping, "STATUS=the last epoch is being written")
}
