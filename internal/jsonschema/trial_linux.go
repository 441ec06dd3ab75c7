package jsonschema

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// isolate lets the parent kill the process with all its children.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// confine limits CPU seconds, and memory beyond current mappings, because the runtime reserves addresses. It forbids
// files and core dumps.
func confine() error {
	seconds := uint64(TrialTime / time.Second)
	mapped, err := mappedBytes()
	if err != nil {
		return err
	}
	for _, l := range []struct {
		resource int
		most     uint64
	}{
		{syscall.RLIMIT_CPU, seconds},
		{syscall.RLIMIT_AS, mapped + TrialMemory},
		{syscall.RLIMIT_CORE, 0},
	} {
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("limit %d to %d: %w", l.resource, l.most, err)
		}
	}
	return nil
}

func mappedBytes() (uint64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var pages uint64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		return 0, fmt.Errorf("/proc/self/statm: %w", err)
	}
	return pages * uint64(os.Getpagesize()), nil
}
