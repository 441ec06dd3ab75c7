package app_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
)

// TestAfterRestore checks that all steps of all services run in order with the restore's age, that each is reported
// before it runs, and that nothing runs after a failed step.
func TestAfterRestore(t *testing.T) {
	t.Parallel()
	var did []string
	boom := errors.New("boom")
	step := func(name string, err error) service.RestoreStep {
		return service.RestoreStep{Doc: name, Run: func(_ context.Context, r service.Restored) error {
			did = append(did, name+" "+r.Age.String())
			return err
		}}
	}
	run := func(name string, steps ...service.RestoreStep) *service.Running {
		return &service.Running{Name: name, Opened: &service.Opened{AfterRestore: steps}}
	}
	progress := func(line string) { did = append(did, line) }
	all := []*service.Running{run("one", step("first", nil), step("second", nil)), run("two"), run("three", step("third", boom), step("fourth", nil))}
	err := app.AfterRestore(t.Context(), all, service.Restored{Age: time.Hour}, progress)
	if !errors.Is(err, boom) || !strings.HasPrefix(err.Error(), "three: third: ") {
		t.Errorf("the error of the failed step: %v", err)
	}
	want := []string{"one: first", "first 1h0m0s", "one: second", "second 1h0m0s", "three: third", "third 1h0m0s"}
	if !slices.Equal(did, want) {
		t.Errorf("did %q, want %q", did, want)
	}
}
