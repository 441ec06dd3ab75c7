package blobs

import (
	"context"
	"testing"
)

func TestTasks(t *testing.T) {
	t.Parallel()
	var all tasks
	if err := all.Wait(t.Context()); err != nil {
		t.Errorf("without any: %v", err)
	}
	end := make(chan struct{})
	all.Go(func() { <-end })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := all.Wait(ended); err == nil {
		t.Error("it does not wait for a task")
	}
	waited := make(chan error)
	for range 4 {
		go func() { waited <- all.Wait(t.Context()) }()
	}
	for range 1000 {
		all.Go(func() {})
	}
	close(end)
	for range 4 {
		if err := <-waited; err != nil {
			t.Error(err)
		}
	}
}
