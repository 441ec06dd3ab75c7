// Package inbox applies the events that a service receives, each of them once.
//
// A service receives an event in the transaction of its effect (see packages sqlite and
// postgres). The inbox remembers the source and the ID of the event with a digest of what
// it says. A repeated event has no effect. An event with a known ID that says something
// else is put into quarantine and has no effect either: a sender that uses an ID twice, or
// somebody who changes events, must not go unnoticed.
//
// The inbox forgets an event Keep after it was received. A broker that delivers it again
// after that applies it again, so the effect must also be idempotent by the time of the
// event.
package inbox

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast/internal/errcode"
)

// Keep is how long events are remembered.
const Keep = 7 * 24 * time.Hour

// KeepQuarantine is how long events in quarantine are kept.
const KeepQuarantine = 30 * 24 * time.Hour

// MaxBody is the number of bytes of an event that quarantine keeps.
const MaxBody = 64 << 10

// Event is a received event. Source and ID together are unique.
type Event struct {
	Source string
	ID     string
	Type   string
	Time   time.Time
	Body   []byte
}

// maxName is the number of bytes of a source, an ID and a type.
const maxName = 512

// Check rejects events that a database cannot identify: names that are empty, too long or
// not text, and times before 1970 or after 9999.
func (e *Event) Check() error {
	for _, name := range []struct{ what, text string }{{"source", e.Source}, {"id", e.ID}, {"type", e.Type}} {
		if name.text == "" || len(name.text) > maxName || !utf8.ValidString(name.text) || strings.IndexByte(name.text, 0) >= 0 {
			return errcode.Wrap(errcode.Invalid, fmt.Sprintf("%s of the event: expected 1 to %d bytes of text", name.what, maxName), &AttributeError{name.what})
		}
	}
	if year := e.Time.UTC().Year(); year < 1970 || year > 9999 {
		return errcode.Wrap(errcode.Invalid, "time of the event: expected a time from 1970 to 9999", &AttributeError{"time"})
	}
	return nil
}

// AttributeError names an attribute of an event that is not valid.
type AttributeError struct{ Name string } // source, id, type or time

func (e *AttributeError) Error() string { return "the attribute " + e.Name + " is not valid" }

// Digest returns the SHA-256 of everything that the effect of the event depends on.
func (e *Event) Digest() [32]byte {
	var b []byte
	for _, part := range []string{e.Source, e.ID, e.Type, e.Time.UTC().Format(time.RFC3339Nano), string(e.Body)} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// Result is what became of a received event.
type Result string

// Results.
const (
	Applied     Result = "applied"
	Stale       Result = "stale"       // older than what was applied before: without effect
	Duplicate   Result = "duplicate"   // received before: without effect
	Quarantined Result = "quarantined" // without effect
)

// ResultOf returns the result of an event that was received for the first time and has changed
// something or not.
func ResultOf(changed bool, err error) (Result, error) {
	switch {
	case err != nil:
		return "", err
	case changed:
		return Applied, nil
	}
	return Stale, nil
}

// Quarantine is an event in quarantine.
type Quarantine struct {
	Event    // its body is at most MaxBody bytes
	Reason   string
	Received time.Time
}

// Truncated returns the part of the body that quarantine keeps.
func (e *Event) Truncated() []byte { return e.Body[:min(len(e.Body), MaxBody)] }

// Reused is why an event is put into quarantine whose ID is known with another digest.
const Reused = "the ID was used for another event"
