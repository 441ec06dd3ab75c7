// Package inbox applies each received event once.
//
// A service receives an event in its effect's transaction (see packages sqlite and postgres). The inbox remembers the
// event's source, ID and content digest, so a repeated event has no effect. An event with a known ID but different
// content is quarantined without effect, which reveals senders that reuse IDs, and modified events.
//
// The inbox forgets an event after Keep. If a broker redelivers it later, it is applied again, so the effect must
// also be idempotent by event time.
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

// Keep is how long received events are remembered, so that a repeated event has no effect.
const Keep = 7 * 24 * time.Hour

// KeepQuarantine is how long events in quarantine are kept.
const KeepQuarantine = 30 * 24 * time.Hour

// MaxBody limits a quarantined event's body, in bytes.
const MaxBody = 64 << 10

// Event is a received event (CloudEvents attributes).
type Event struct {
	Source string // with ID unique for each event
	ID     string
	Type   string
	Time   time.Time // when it happened, which decides whether it is stale
	Body   []byte
}

const maxName = 512 // bytes in Source, ID and Type

// Check rejects events that a database cannot identify: names that are empty, too long or not text, and times before
// 1970 or after 9999.
func (e *Event) Check() error {
	for _, name := range []struct{ what, text string }{{"source", e.Source}, {"id", e.ID}, {"type", e.Type}} {
		if name.text == "" || len(name.text) > maxName || !utf8.ValidString(name.text) || strings.IndexByte(name.text, 0) >= 0 {
			return errcode.Wrap(errcode.Invalid, fmt.Sprintf("event %s: expected 1 to %d bytes of text", name.what, maxName), &AttributeError{name.what})
		}
	}
	if year := e.Time.UTC().Year(); year < 1970 || year > 9999 {
		return errcode.Wrap(errcode.Invalid, "event time: expected a time from 1970 to 9999", &AttributeError{"time"})
	}
	return nil
}

// AttributeError names an invalid event attribute.
type AttributeError struct{ Name string }

func (e *AttributeError) Error() string { return "the attribute " + e.Name + " is not valid" }

// Digest returns the SHA-256 of everything that determines the event's effect.
func (e *Event) Digest() [32]byte {
	var b []byte
	for _, part := range []string{e.Source, e.ID, e.Type, e.Time.UTC().Format(time.RFC3339Nano), string(e.Body)} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// Result says how an event was handled.
type Result string

// Results of a received event.
const (
	Applied     Result = "applied"
	Stale       Result = "stale"       // older than the applied state: no effect
	Duplicate   Result = "duplicate"   // received before
	Quarantined Result = "quarantined" // kept for an operator, because it cannot be applied
)

// ResultOf returns a new event's result; changed reports whether it had an effect.
func ResultOf(changed bool, err error) (Result, error) {
	switch {
	case err != nil:
		return "", err
	case changed:
		return Applied, nil
	}
	return Stale, nil
}

// Quarantine is an event that was not applied.
type Quarantine struct {
	Event           // its body is at most MaxBody bytes
	Reason   string // for operators
	Received time.Time
}

// Truncated returns the body that quarantine keeps.
func (e *Event) Truncated() []byte { return e.Body[:min(len(e.Body), MaxBody)] }

// Reused is the quarantine reason for an ID with a different digest.
const Reused = "the ID was used for another event"
