package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc, which Linux has told programs to be
// this on every architecture since 2.6.
const tick = 10 * time.Millisecond

func (s *server) proc(file string) string {
	return filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), file)
}

// cpu is what the server has worked so far, for itself and in the kernel.
func (s *server) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(s.proc("stat")) //nolint:gosec // of a process that we started
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold blanks; the state is the first behind it.
	_, rest, found := bytes.Cut(stat, []byte(") "))
	fields := strings.Fields(string(rest))
	if !found || len(fields) < 13 {
		return 0, fmt.Errorf("unknown form of stat: %s", stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	system, other := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err, other)
}

// resetPeak makes peak begin anew.
func (s *server) resetPeak() error {
	return os.WriteFile(s.proc("clear_refs"), []byte("5"), 0) //nolint:gosec // as in cpu
}

// peak is the most memory the server has had since resetPeak, in bytes.
func (s *server) peak() (int64, error) {
	status, err := os.ReadFile(s.proc("status")) //nolint:gosec // as in cpu
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, "VmHWM:"); found {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("the kernel does not tell VmHWM")
}
