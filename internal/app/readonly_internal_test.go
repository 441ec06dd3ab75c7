package app

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestReadOnlySince checks that what made a service read-only, and when, is in the state that holdfast status prints, in the
// list and in the console's card. The same holder keeps the time.
func TestReadOnlySince(t *testing.T) {
	t.Parallel()
	a := openApp(t, "HOLDFAST_SERVER__READ_ONLY=true")
	var first time.Time
	for range 2 {
		if failed := a.settle(t.Context()); len(failed) > 0 {
			t.Fatal(failed)
		}
		s := a.opened[0]
		hold, err := s.Rows().ReadOnly(t.Context(), s.Name)
		if err != nil || hold.Since.IsZero() || !first.IsZero() && !hold.Since.Equal(first) || !hold.Until.IsZero() {
			t.Fatalf("%+v, %v; first since %v", hold, err, first)
		}
		first = hold.Since
		if err := s.Rows().Close(t.Context(), s.Name, hold.Holder, 0, s.Tables); err != nil { // as after a restart
			t.Fatal(err)
		}
	}
	says := "read-only, by server.read_only (HOLDFAST_SERVER__READ_ONLY) since " + first.UTC().Format(time.RFC3339)
	shown := 0
	for _, s := range a.state(t.Context()).Services {
		if s.Name == a.opened[0].Name && s.Reason == says {
			shown++
		}
	}
	for i := range a.operations {
		o := &a.operations[i]
		if o.Path != "read-only" {
			continue
		}
		shown++
		result, err := o.Run(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		list, err := o.JSON(t.Context(), result)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(list)
		if err != nil || !strings.Contains(string(text), `"since":"`+first.UTC().Format("2006-01-02T15:04:05")) {
			t.Errorf("%s, %v", text, err)
		}
	}
	if shown != 2 {
		t.Errorf("no %q in %+v", says, a.state(t.Context()).Services)
	}
}

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
