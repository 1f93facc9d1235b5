package redistest

import "syscall"

// dieWithParent has the kernel kill a server whose test process was killed before it could.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
