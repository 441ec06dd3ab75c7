package binary

import (
	"testing"

	"holdfast/internal/workload"
	"holdfast/internal/workload/sync"
)

// Credentials are the output of `holdfast sync tokens create --json`.
type Credentials struct{ sync.Credentials }

type Answer = workload.Answer

// Want sends a request and fails unless the response has this status.
func (c Credentials) Want(t *testing.T, status int, method, path, body string) Answer {
	t.Helper()
	a, err := c.Send(method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.Status != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, a.Status, a.Body, status)
	}
	return a
}
