package kafkatest

import (
	"os/exec"
	"syscall"
)

// contain puts a process into a group of its own, so that an interrupt at the terminal reaches the test first, and has the
// kernel kill it if the test process is killed before it could.
func contain(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
