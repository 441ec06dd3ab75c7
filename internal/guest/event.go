package guest

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Event is published after its transaction, at least once, and in order within each session.
type Event struct {
	ID        ID
	Type      string // e.g. melmastoon.bff.consumer.wishlist.added.v1
	Subject   string // ID of the entity, e.g. a wish
	Retention string // class, e.g. Operational
	Payload   json.RawMessage
	At        time.Time // in microseconds

	// number of events that this event represents; 0 means 1
	SampleRate int
}

// Headers returns the event's headers as JSON. An unsampled event has no sampledrate.
func (e *Event) Headers(trace Trace) string {
	members := make([]string, 0, 3)
	if trace.Parent != "" {
		members = append(members, `"traceparent":"`+trace.Parent+`"`) // hexadecimal digits and hyphens need no escaping
	}
	if trace.Parent != "" && trace.State != "" {
		text, _ := json.Marshal(trace.State)
		members = append(members, `"tracestate":`+string(text))
	}
	if e.SampleRate > 0 {
		members = append(members, `"sampledrate":"`+strconv.Itoa(e.SampleRate)+`"`)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// Retention classes.
const (
	Operational = "operational" // deleted when it was published
	Audit       = "audit"       // kept, e.g. for handoffs
)

// BeforeEvents returns a text that sorts below all event IDs at a time and above earlier milliseconds.
func BeforeEvents(at time.Time) string {
	var u ulid.ULID
	if at.Before(time.UnixMilli(0)) || u.SetTime(ulid.Timestamp(at)) != nil {
		return ""
	}
	return EventPrefix + u.String()[:10]
}
