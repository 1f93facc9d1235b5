//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package kafkatest

import (
	"os/exec"
	"syscall"
)

func contain(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
