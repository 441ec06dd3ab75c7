package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// proc returns the path of a process's file in /proc.
func proc(pid int, file string) string { return filepath.Join("/proc", strconv.Itoa(pid), file) }

// worked is the CPU time of processes.
type worked map[int]time.Duration

// since ignores processes that ended.
func (w worked) since(then worked) (sum time.Duration) {
	for pid, d := range w {
		sum += d - then[pid]
	}
	return sum
}

// cpu reads the clocks of processes, which count nanoseconds; /proc/PID/stat counts only in steps of 10 ms. It leaves
// out processes that ended.
func cpu(pids ...int) (worked, error) {
	all := worked{}
	for _, pid := range pids {
		var spent unix.Timespec
		// The kernel's clock ID for all threads of a process; see clock_getcpuclockid(3).
		err := unix.ClockGettime(int32(^pid<<3|2), &spent)
		switch {
		case err == nil:
			all[pid] = time.Duration(spent.Nano())
		case !errors.Is(err, unix.EINVAL):
			return nil, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
	}
	return all, nil
}

// family returns a process and its children, e.g. PostgreSQL's postmaster and its backends.
func family(pid int) ([]int, error) {
	text, err := os.ReadFile(proc(pid, fmt.Sprintf("task/%d/children", pid)))
	if err != nil {
		return nil, err
	}
	pids := []int{pid}
	for word := range strings.FieldsSeq(string(text)) {
		child, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		pids = append(pids, child)
	}
	return pids, nil
}

// memory returns a field of a process's status in bytes, e.g. VmRSS.
func memory(pid int, field string) (int64, error) {
	var kb int64
	if _, err := fmt.Sscan(procLine(proc(pid, "status"), field), &kb); err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return kb << 10, nil
}
