package firefox

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program started by the test. When the test ends, it is killed with its children, and its output is
// printed if the test failed.
type process struct {
	name   string
	ended  chan struct{}
	mu     sync.Mutex // guards output and grown
	output bytes.Buffer
	grown  chan struct{} // closed on the next write
}

func start(t *testing.T, name string, env []string, program string, args ...string) (*process, error) {
	p := &process{name: name, ended: make(chan struct{}), grown: make(chan struct{})}
	cmd := exec.Command(program, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = p, p
	// The process group allows killing all Firefox processes, which must end before the profile can be removed. The session
	// gets its own share of a busy CPU.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = 5 * time.Second // in case a child leaves the group and keeps the output open
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		// Wait returns after the last process has closed the output.
		_ = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
		if t.Failed() {
			t.Logf("---- %s wrote:\n%s", name, tail(p.output.Bytes()))
		}
	})
	return p, nil
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.grown)
	p.grown = make(chan struct{})
	return p.output.Write(b)
}

// await waits for re in the output and returns its first group.
func (p *process) await(ctx context.Context, re *regexp.Regexp) (string, error) {
	for {
		p.mu.Lock()
		m, grown := re.FindSubmatch(p.output.Bytes()), p.grown
		p.mu.Unlock()
		if m != nil {
			return string(m[1]), nil
		}
		select {
		case <-grown:
		case <-p.ended:
			return "", fmt.Errorf("%s ended before it wrote %q", p.name, re)
		case <-ctx.Done():
			return "", fmt.Errorf("%s did not write %q: %w", p.name, re, context.Cause(ctx))
		}
	}
}

const tailSize = 64 << 10

func tail(b []byte) []byte {
	return b[max(0, len(b)-tailSize):]
}
