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

// TestUncountedCredentials lists credentials whose number is unknown, because an operator must check them all the same.
func TestUncountedCredentials(t *testing.T) {
	t.Parallel()
	restored := []*service.Running{
		{Name: "one", Command: "1st", Opened: &service.Opened{}, Credentials: []service.Credential{
			{Counted: service.Counted{Of: "access key", Table: "missing"}, Again: []string{"keys/revoke", "keys/limit"}},
		}},
		{Name: "two", Command: "2nd", Opened: &service.Opened{}, Credentials: []service.Credential{
			{Counted: service.Counted{Of: "signed tokens"}, Again: []string{"tokens/revoke"}},
		}},
	}
	lines, unknown := app.Credentials(t.Context(), restored)
	if want := []string{"one: each access key: holdfast 1st keys revoke, keys limit", "two: signed tokens: holdfast 2nd tokens revoke"}; !slices.Equal(lines, want) {
		t.Errorf("credentials: %q, want %q", lines, want)
	}
	if want := []string{"one: access key: the number in the restored data is unknown: no table missing"}; !slices.Equal(unknown, want) {
		t.Errorf("unknown: %q, want %q", unknown, want)
	}
}
