package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

// Log is a sink that writes events to the log.
type Log struct{ Logger *slog.Logger }

func (l Log) Publish(ctx context.Context, events []Event) error {
	for _, e := range events {
		attrs := []slog.Attr{
			slog.String("owner", e.Owner), slog.String("stream", e.Stream), slog.Int64("seq", e.Seq), slog.String("topic", e.Topic),
			slog.String("key", e.Key), slog.Time("at", e.At.UTC()), slog.String("payload", string(e.Payload)),
		}
		if e.Name != "" {
			attrs = append(attrs, slog.String("id", e.Name))
		}
		l.Logger.LogAttrs(ctx, slog.LevelInfo, "event", attrs...)
	}
	return nil
}

// Lines is a sink that appends JSON lines to a file readable only by its owner.
//
// The file may be renamed at any time for rotation. A line truncated by a crash or a full disk remains, and its event
// follows on a new line.
type Lines struct {
	path string
	mu   sync.Mutex
	file *os.File // nil after a failure
}

// OpenLines opens the file, creating it in an existing folder.
func OpenLines(path string) (*Lines, error) {
	l := &Lines{path: path}
	return l, l.open()
}

// Close closes the file.
func (l *Lines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.close()
}

func (l *Lines) close() error {
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}

// line is an event in the file.
type line struct {
	ID      string          `json:"id,omitempty"` // only from boxes that keep published events
	Owner   string          `json:"owner"`
	Stream  string          `json:"stream"`
	Seq     int64           `json:"seq"`
	Topic   string          `json:"topic"`
	Key     string          `json:"key"`
	At      time.Time       `json:"at"`
	Payload json.RawMessage `json:"payload"`
}

// Publish returns once the lines are synced.
func (l *Lines) Publish(_ context.Context, events []Event) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for _, e := range events {
		if err := encoder.Encode(line{e.Name, e.Owner, e.Stream, e.Seq, e.Topic, e.Key, e.At.UTC(), e.Payload}); err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.append(text.Bytes()); err != nil {
		// After a failed sync the system may consider lost data written, so the file handle is not reused.
		return errors.Join(errcode.Wrap(errcode.Unavailable, "the event file cannot be written", err), l.close())
	}
	return nil
}

// append writes and syncs text, on a new line.
func (l *Lines) append(text []byte) error {
	if !l.current() {
		if err := errors.Join(l.close(), l.open()); err != nil {
			return err
		}
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > 0 {
		var last [1]byte
		if _, err := l.file.ReadAt(last[:], info.Size()-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			text = append([]byte{'\n'}, text...)
		}
	}
	if _, err := l.file.Write(text); err != nil {
		return err
	}
	return l.file.Sync()
}

// current reports whether the open file is still the one at the path.
func (l *Lines) current() bool {
	if l.file == nil {
		return false
	}
	here, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(l.path)
	return err == nil && os.SameFile(here, there)
}

func (l *Lines) open() error {
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return errcode.Wrap(errcode.Unavailable, "the event file cannot be opened", err)
	}
	if err := durable.SyncFolder(filepath.Dir(l.path)); err != nil {
		return errors.Join(errcode.Wrap(errcode.Unavailable, "the event folder cannot be written", err), f.Close())
	}
	l.file = f
	return nil
}
