package outbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/outbox"
)

func event(seq int) outbox.Event {
	return outbox.Event{
		Owner: "tenant", Stream: "install", Seq: int64(seq), Topic: "put", Key: "a<b>&\"\n",
		Payload: json.RawMessage(`{"z":1,"a":1e400}`), At: time.Date(2026, 11, 21, 13, 0, 0, 123456000, time.FixedZone("", 3600)),
	}
}

func lineOf(seq int) string {
	return fmt.Sprintf(`{"owner":"tenant","stream":"install","seq":%d,"topic":"put","key":"a<b>&\"\n","at":"2026-11-21T12:00:00.123456Z","payload":{"z":1,"a":1e400}}`, seq) + "\n"
}

func openLines(t *testing.T) (*outbox.Lines, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	l, err := outbox.OpenLines(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, path
}

func publish(t *testing.T, s outbox.Sink, numbers ...int) {
	t.Helper()
	var events []outbox.Event
	for _, n := range numbers {
		events = append(events, event(n))
	}
	if err := s.Publish(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, path string, lines ...string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != strings.Join(lines, "") {
		t.Errorf("%s holds\n%s%v; want\n%s", filepath.Base(path), text, err, strings.Join(lines, ""))
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	l, path := openLines(t)
	publish(t, l, 1, 2)
	publish(t, l, 3)
	wantFile(t, path, lineOf(1), lineOf(2), lineOf(3))
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	other, err := outbox.OpenLines(path)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, other, 4)
	publish(t, l, 5)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	wantFile(t, path, lineOf(1), lineOf(2), lineOf(3), lineOf(4), lineOf(5))
}

func TestLinesRotated(t *testing.T) {
	t.Parallel()
	l, path := openLines(t)
	publish(t, l, 1)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	publish(t, l, 2)
	wantFile(t, path+".1", lineOf(1))
	wantFile(t, path, lineOf(2))
	if err := errors.Join(os.Rename(path, path+".2"), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	publish(t, l, 3)
	wantFile(t, path+".2", lineOf(2))
	wantFile(t, path, lineOf(3))
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	publish(t, l, 4)
	wantFile(t, path, lineOf(4))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	publish(t, l, 5)
	wantFile(t, path, lineOf(5))
}

func TestLinesTorn(t *testing.T) {
	t.Parallel()
	l, path := openLines(t)
	publish(t, l, 1, 2)
	half := int64(len(lineOf(1)) + 20)
	if err := os.Truncate(path, half); err != nil {
		t.Fatal(err)
	}
	publish(t, l, 2)
	wantFile(t, path, lineOf(1), lineOf(2)[:20]+"\n", lineOf(2))
}

func TestLinesFail(t *testing.T) {
	t.Parallel()
	if _, err := outbox.OpenLines(filepath.Join(t.TempDir(), "no", "folder")); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("without a folder: %v", err)
	}
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "events.jsonl")
	l, err := outbox.OpenLines(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(folder, folder+"-gone"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Publish(t.Context(), []outbox.Event{event(1)}); !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("the folder was removed: %v", err)
		}
	}
	if err := os.Rename(folder+"-gone", folder); err != nil {
		t.Fatal(err)
	}
	publish(t, l, 1)
	wantFile(t, path, lineOf(1))
	broken := event(2)
	broken.Payload = json.RawMessage(`{`)
	if err := l.Publish(t.Context(), []outbox.Event{event(3), broken}); err == nil {
		t.Error("half an event was written")
	}
	wantFile(t, path, lineOf(1))
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
}

// TestLinesDiskFull writes to /dev/full.
func TestLinesDiskFull(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skipf("needs the device /dev/full: %v", err)
	}
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	l, err := outbox.OpenLines(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Publish(t.Context(), []outbox.Event{event(1)}); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("a full disk: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	publish(t, l, 1)
	wantFile(t, path, lineOf(1))
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestLinesSynced writes to a device that accepts all data and fails on sync.
func TestLinesSynced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.Symlink(os.DevNull, path); err != nil {
		t.Fatal(err)
	}
	l, err := outbox.OpenLines(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Publish(t.Context(), []outbox.Event{event(1)}); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("published without a sync: %v", err)
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	publish(t, outbox.Log{Logger: slog.New(slog.NewJSONHandler(&text, nil))}, 1, 2)
	var got struct {
		Msg, Owner, Stream, Topic, Key, Payload string
		Seq                                     int
		At                                      time.Time
	}
	lines := strings.SplitAfter(text.String(), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines)-1)
	}
	if err := json.Unmarshal([]byte(lines[1]), &got); err != nil {
		t.Fatal(err)
	}
	want := event(2)
	if got.Msg != "event" || got.Owner != want.Owner || got.Stream != want.Stream || got.Topic != want.Topic || got.Key != want.Key ||
		got.Payload != string(want.Payload) || got.Seq != 2 || !got.At.Equal(want.At) {
		t.Errorf("%+v", got)
	}
}

func BenchmarkLines(b *testing.B) {
	l, err := outbox.OpenLines(filepath.Join(b.TempDir(), "events.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	events := make([]outbox.Event, 500)
	for i := range events {
		events[i] = event(i + 1)
	}
	for b.Loop() {
		if err := l.Publish(b.Context(), events); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(events))/b.Elapsed().Seconds(), "events/s")
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

func TestNameOfEvents(t *testing.T) {
	t.Parallel()
	e := event(1)
	e.Name = "evt_01J8ZQ4Y7N5M3K2H1G0F9E8D7B"
	l, path := openLines(t)
	if err := l.Publish(t.Context(), []outbox.Event{e}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if want := `{"id":"` + e.Name + `",` + lineOf(1)[1:]; err != nil || string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	var log bytes.Buffer
	if err := (outbox.Log{Logger: slog.New(slog.NewJSONHandler(&log, nil))}).Publish(t.Context(), []outbox.Event{e}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), `"id":"`+e.Name+`"`) {
		t.Errorf("%s", log.String())
	}
}
