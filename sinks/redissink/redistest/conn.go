package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Error is what a server answers to a command that it refuses.
type Error string

// Error is the text.
func (e Error) Error() string { return string(e) }

// Conn is a connection that gives commands one at a time. It speaks version 2 of the protocol, which every server does.
type Conn struct {
	c net.Conn
	r *bufio.Reader
	b []byte
}

// Connect connects to host:port.
func Connect(address string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return nil, err
	}
	return &Conn{c: c, r: bufio.NewReader(c)}, nil
}

// Close closes it.
func (c *Conn) Close() error { return c.c.Close() }

// Do gives a command. The answer is a string, an int64, nil, or a []any of those; an Error where the server refuses.
func (c *Conn) Do(args ...any) (any, error) {
	c.b = fmt.Appendf(c.b[:0], "*%d\r\n", len(args))
	for _, a := range args {
		text := fmt.Sprint(a)
		c.b = fmt.Appendf(c.b, "$%d\r\n%s\r\n", len(text), text)
	}
	if err := c.c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := c.c.Write(c.b); err != nil {
		return nil, err
	}
	return c.read()
}

var errProtocol = errors.New("the server does not speak the protocol")

func (c *Conn) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, errProtocol
	}
	kind, text := line[0], line[1:len(line)-2]
	if kind == '+' {
		return text, nil
	}
	if kind == '-' {
		return nil, Error(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", errProtocol, line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = c.read(); err != nil {
				if e := Error(""); !errors.As(err, &e) {
					return nil, err
				}
				list[i] = err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("%w: %q", errProtocol, line)
}
