package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/outbox"
)

const (
	crashPlace = "OUTBOX_CRASH_PLACE"
	crashFile  = "OUTBOX_CRASH_FILE"
)

type fatal struct{ outbox.Sink }

func (f fatal) Publish(ctx context.Context, events []outbox.Event) error {
	if err := f.Sink.Publish(ctx, events); err != nil {
		return err
	}
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// Crash kills a process between publishing and deleting events. The calling test must do nothing else, because it
// also runs in the killed process, where open gets the place returned by create.
func Crash(t *testing.T, create func(t testing.TB) (place string, h Harness), open func(t testing.TB, place string) outbox.Box) {
	if place := os.Getenv(crashPlace); place != "" {
		lines, err := outbox.OpenLines(os.Getenv(crashFile))
		if err != nil {
			t.Fatal(err)
		}
		n, err := relay(open(t, place), fatal{lines}, outbox.Options{Lease: time.Hour}).Pass(t.Context())
		t.Fatalf("the process was not killed: %d, %v", n, err)
	}
	place, h := create(t)
	want := story(3, 5)
	h.Append(t, false, want...)
	file := filepath.Join(t.TempDir(), "events.jsonl")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), crashPlace+"="+place, crashFile+"="+file)
	out, _ := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the other process has not killed itself:\n%s", out)
	}
	firsts := read(t, file)
	same(t, "published by the killed process", inOrder(t, firsts), want)

	b, s := h.Box(t), newSink()
	after := event(8, 8, 1)
	h.Append(t, false, after)
	survivor := relay(b, s, outbox.Options{Lease: time.Hour})
	if n, err := survivor.Pass(t.Context()); n != 0 || err != nil || s.calls != 0 {
		t.Errorf("while the lease runs: %d, %v", n, err)
	}
	h.Lapse(t)
	if n, err := survivor.Pass(t.Context()); n != len(want)+1 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
	same(t, "published again", inOrder(t, without(s.published, after)), want)
	same(t, "left", waiting(t, b), nil)
}

func read(t testing.TB, file string) (events []outbox.Event) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for l := range bytes.Lines(text) {
		var e outbox.Event
		if err := json.Unmarshal(l, &e); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		events = append(events, e)
	}
	return events
}
