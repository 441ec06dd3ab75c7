package guest

import (
	"encoding/json"
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
}

// Retention classes.
const (
	Operational = "operational"
	Audit       = "audit"
)
