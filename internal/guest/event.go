package guest

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Event is published after the transaction that appended it, at least once, and in order
// for each session.
type Event struct {
	ID        ID
	Type      string // such as melmastoon.bff.consumer.wishlist.added.v1
	Subject   string // what it is about, such as the ID of a wish
	Retention string // Operational or Audit
	Payload   json.RawMessage
	At        time.Time // to the microsecond

	// SampleRate says that this event stands for so many, of which the others are not
	// published. 0: it stands for itself.
	SampleRate int
}

// Headers returns the extensions of the event, a JSON object of strings.
func (e *Event) Headers(trace Trace) string {
	members := make([]string, 0, 3)
	if trace.Parent != "" {
		members = append(members, `"traceparent":"`+trace.Parent+`"`) // hexadecimal digits and hyphens
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
	Operational = "operational"
	Audit       = "audit"
)

// BeforeEvents returns a text that is less than the IDs of events of a time, and greater than those of
// earlier milliseconds.
func BeforeEvents(at time.Time) string {
	var u ulid.ULID
	if at.Before(time.UnixMilli(0)) || u.SetTime(ulid.Timestamp(at)) != nil {
		return ""
	}
	return EventPrefix + u.String()[:10]
}
