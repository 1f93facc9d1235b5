package redistest

import (
	"os/exec"
	"syscall"
	"time"
)

// contain makes a process the first one of a group, for a server forks to write its files, and has the kernel kill it if the
// test process is killed before it could.
func contain(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// kill kills the process and those that it has forked, and waits for their end: they write into the test's directory.
func kill(cmd *exec.Cmd) {
	group := -cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGKILL)
	_ = cmd.Wait() // an error is how a killed process ends
	// Where nobody reaps orphans the group stays, though nothing of it runs: this is why the wait has an end.
	for end := time.Now().Add(time.Second); syscall.Kill(group, 0) == nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}
