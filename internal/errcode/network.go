package errcode

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
)

// NetworkReason explains in a line why a network client got no answer: the innermost reason, without addresses and
// URL contents.
func NetworkReason(err error) string {
	if timeout, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || ok && timeout.Timeout() {
		return "timed out"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return "unknown host " + dns.Name
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// NoAnswer returns a single-line error for a failed HTTP request. It wraps err.
func NoAnswer(address string, err error) error { return &noAnswer{address, err} }

type noAnswer struct {
	address string
	error
}

func (e *noAnswer) Error() string {
	return "no answer from " + e.address + ": " + NetworkReason(e.error)
}

func (e *noAnswer) Unwrap() error { return e.error }
