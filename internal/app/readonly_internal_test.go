package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestReadOnlyWarnsOnce checks that a retried start, e.g. without a database, warns only once of a read-only service.
func TestReadOnlyWarnsOnce(t *testing.T) {
	t.Parallel()
	a := openApp(t, "HOLDFAST_SERVER__READ_ONLY=true")
	var log bytes.Buffer
	a.readOnly.Log = slog.New(slog.NewTextHandler(&log, nil))
	can := 0
	for _, s := range a.opened {
		if s.Rows() != nil {
			can++
		}
	}
	warned := func() int { return strings.Count(log.String(), "the service is read-only") }
	for range 3 {
		if failed := a.settle(t.Context()); len(failed) > 0 {
			t.Fatal(failed)
		}
	}
	if n := warned(); can == 0 || n != can {
		t.Errorf("%d warnings of %d services:\n%s", n, can, log.String())
	}
	a.readOnly.Setting.Store(false)
	if failed := a.settle(t.Context()); len(failed) > 0 {
		t.Fatal(failed)
	}
	a.readOnly.Setting.Store(true)
	if failed := a.settle(t.Context()); len(failed) > 0 {
		t.Fatal(failed)
	}
	if n := warned(); n != 2*can {
		t.Errorf("%d warnings after a second period, want %d", n, 2*can)
	}
}
