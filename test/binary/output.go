package binary

import (
	"bytes"
	"regexp"
	"sync"
	"time"
)

// Output collects the output of a process. It can be read at any time.
type Output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{} // closed at the next write; nil if nobody waits
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.grown != nil {
		close(o.grown)
		o.grown = nil
	}
	return o.text.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Await waits until re matches and returns its groups, or nil when the process has ended or after Bound.
func (o *Output) Await(re *regexp.Regexp, ended <-chan struct{}) []string {
	timeout := time.NewTimer(Bound)
	defer timeout.Stop()
	for {
		o.mu.Lock()
		found := re.FindStringSubmatch(o.text.String())
		if o.grown == nil {
			o.grown = make(chan struct{})
		}
		grown := o.grown
		o.mu.Unlock()
		if found != nil {
			return found
		}
		select {
		case <-grown:
		case <-ended:
			return nil
		case <-timeout.C:
			return nil
		}
	}
}
