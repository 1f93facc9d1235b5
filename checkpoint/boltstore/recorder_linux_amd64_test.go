package boltstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// written is what a process did to one file, in order: a write, a change of size, a sync, or a line on its standard output.
type written struct {
	offset int64
	data   []byte
	size   int64 // of a change of size, else -1
	sync   bool
	line   string
}

// record runs a command and notes its system calls on the file of that name. The command must open the file itself. Calls are
// noted when they return, so a sync stands behind all that it made durable.
//
// It is a tracer of its own by ptrace(2), because a wrapper around the file would see only what it is shown: bbolt writes by
// an *os.File, syncs a descriptor, and maps the file.
func record(cmd *exec.Cmd, target string) ([]written, error) {
	runtime.LockOSThread() // a process is traced by one thread
	defer runtime.UnlockOSThread()
	out, err := os.CreateTemp("", "cepd-recorded-*")
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = out.Close(), os.Remove(out.Name()) }() // nobody reads it: its lines are seen as they are written
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &recorder{pid: cmd.Process.Pid, target: target, fds: map[uint64]bool{}, calls: map[int]*call{}}
	if err := r.run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	return r.list, nil
}

// call is a system call that a thread is in.
type call struct {
	inside bool
	regs   syscall.PtraceRegs
	path   string
	data   []byte
}

type recorder struct {
	pid    int
	target string
	mem    *os.File
	fds    map[uint64]bool
	calls  map[int]*call // by thread
	list   []written
}

func (r *recorder) run() error {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(r.pid, &status, syscall.WALL, nil); err != nil {
		return err
	}
	if !status.Stopped() {
		return errors.New("the process did not stop to be traced")
	}
	const exitKill = 0x100000 // PTRACE_O_EXITKILL: a tracer that dies takes it along
	options := syscall.PTRACE_O_TRACECLONE | syscall.PTRACE_O_TRACESYSGOOD | exitKill
	if err := syscall.PtraceSetOptions(r.pid, options); err != nil {
		return err
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", r.pid))
	if err != nil {
		return err
	}
	defer func() { _ = mem.Close() }()
	r.mem = mem
	if err := syscall.PtraceSyscall(r.pid, 0); err != nil {
		return err
	}
	for {
		thread, err := syscall.Wait4(-1, &status, syscall.WALL, nil)
		if err != nil {
			return err
		}
		switch {
		case status.Exited() || status.Signaled():
			if thread != r.pid {
				delete(r.calls, thread)
				continue
			}
			if status.ExitStatus() != 0 {
				return fmt.Errorf("the process ended with %d", status.ExitStatus())
			}
			return nil
		case !status.Stopped():
			continue
		}
		deliver := 0
		switch signal := status.StopSignal(); signal {
		case syscall.SIGTRAP | 0x80: // at a system call, going in or coming out
			if err := r.stopped(thread); err != nil {
				return err
			}
		case syscall.SIGTRAP: // a thread was made
		case syscall.SIGSTOP: // a thread that was made begins
			if r.calls[thread] != nil {
				deliver = int(signal)
			}
		default:
			deliver = int(signal)
		}
		if r.calls[thread] == nil {
			r.calls[thread] = &call{}
		}
		if err := syscall.PtraceSyscall(thread, deliver); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
}

// stopped looks at a system call.
func (r *recorder) stopped(thread int) error {
	c := r.calls[thread]
	if c == nil {
		c = &call{}
		r.calls[thread] = c
	}
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(thread, &regs); err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return err
	}
	c.inside = !c.inside
	if c.inside {
		return c.enter(r, regs)
	}
	if int64(regs.Rax) >= 0 {
		r.left(c, regs.Rax)
	}
	return nil
}

// enter notes the arguments.
func (c *call) enter(r *recorder, regs syscall.PtraceRegs) error {
	c.regs, c.path, c.data = regs, "", nil
	switch regs.Orig_rax {
	case syscall.SYS_OPENAT:
		path := make([]byte, 4096)
		n, err := r.mem.ReadAt(path, int64(regs.Rsi))
		if n == 0 {
			return err
		}
		path, _, _ = bytes.Cut(path[:n], []byte{0})
		c.path = string(path)
	case syscall.SYS_WRITE, syscall.SYS_PWRITE64:
		if !r.fds[regs.Rdi] && regs.Rdi != 1 {
			return nil
		}
		c.data = make([]byte, regs.Rdx)
		_, err := r.mem.ReadAt(c.data, int64(regs.Rsi))
		return err
	}
	return nil
}

// left notes what a call did that has succeeded.
func (r *recorder) left(c *call, result uint64) {
	fd := c.regs.Rdi
	w := written{size: -1}
	switch c.regs.Orig_rax {
	case syscall.SYS_OPENAT:
		if c.path == r.target {
			r.fds[result] = true
		}
		return
	case syscall.SYS_CLOSE:
		delete(r.fds, fd)
		return
	case syscall.SYS_WRITE:
		if fd != 1 {
			if r.fds[fd] {
				panic("the file was written without an offset, which is not modelled")
			}
			return
		}
		w.line = string(c.data)
	case syscall.SYS_PWRITE64:
		w.offset, w.data = int64(c.regs.R10), c.data[:result]
	case syscall.SYS_FTRUNCATE:
		w.size = int64(c.regs.Rsi)
	case syscall.SYS_FDATASYNC, syscall.SYS_FSYNC:
		w.sync = true
	default:
		return
	}
	if w.line != "" || r.fds[fd] {
		r.list = append(r.list, w)
	}
}
