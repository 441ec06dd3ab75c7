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

func proc(pid int, file string) string { return filepath.Join("/proc", strconv.Itoa(pid), file) }

// worked is how long processes have been on a CPU so far, by pid.
type worked map[int]time.Duration

// since is what they have worked after then. A process that has ended between
// takes its share with it.
func (w worked) since(then worked) (sum time.Duration) {
	for pid, d := range w {
		sum += d - then[pid]
	}
	return sum
}

// cpu reads schedstat, which counts in nanoseconds, of every thread; stat has
// all of a process in one number, but that is of 10 ms.
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
				continue // it has ended
			}
			if err != nil {
				return nil, err
			}
			first, _, _ := bytes.Cut(text, []byte(" "))
			ns, err := strconv.ParseInt(string(first), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("unknown form of schedstat: %s", text)
			}
			all[pid] += time.Duration(ns)
		}
	}
	return all, nil
}

// family is a process with its children.
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

// resetPeak makes peak begin anew.
func resetPeak(pid int) error {
	return os.WriteFile(proc(pid, "clear_refs"), []byte("5"), 0)
}

// peak is the most memory a process has had since resetPeak, in bytes.
func peak(pid int) (int64, error) { return memory(pid, "VmHWM:") }

// resident is the memory that a process has now, in bytes.
func resident(pid int) (int64, error) { return memory(pid, "VmRSS:") }

func memory(pid int, field string) (int64, error) {
	status, err := os.ReadFile(proc(pid, "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, field); found {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("the kernel does not tell %s", field)
}
