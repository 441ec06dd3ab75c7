package guest

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
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

// Headers returns the extensions of the event, a JSON object of strings. trace is the
// traceparent of the request; "": none.
func (e *Event) Headers(trace string) string {
	members := make([]string, 0, 2)
	if trace != "" {
		members = append(members, `"traceparent":"`+trace+`"`) // hexadecimal digits and hyphens
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
