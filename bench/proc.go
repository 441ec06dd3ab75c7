package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// cpu reads every thread's schedstat file, which counts nanoseconds; stat counts only in steps of 10 ms.
func cpu(pids ...int) (worked, error) {
	all := worked{}
	for _, pid := range pids {
		threads, err := filepath.Glob(proc(pid, "task/*/schedstat"))
		if err != nil {
			return nil, err
		}
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue
			}
			if err != nil {
				return nil, err
			}
			first, _, _ := bytes.Cut(text, []byte(" "))
			ns, err := strconv.ParseInt(string(first), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("unknown format of schedstat: %s", text)
			}
			all[pid] += time.Duration(ns)
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
