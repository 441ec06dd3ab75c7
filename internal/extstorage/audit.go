package extstorage

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Every put, and every delete that finds a record, appends an event to the install's audit stream.
const (
	AuditTable  = "ext_storage_outbox" // outbox table with the events
	AuditPut    = "extstorage.put"     // topic
	AuditDelete = "extstorage.delete"  // topic
)

// AuditKey returns the event's key. Events with the same key stay in order.
func (op *Op) AuditKey() string { return string(op.Namespace) + "/" + string(op.Key) }

// AuditPayload returns the event for operation i as JSON, without value and metadata. r is the written or removed
// revision.
func (w *Write) AuditPayload(i int, r Revision) []byte {
	op := &w.Ops[i]
	b := make([]byte, 0, 192)
	b = append(b, `{"operation":"`...)
	if op.Kind == Delete {
		b = append(b, "delete"...)
	} else {
		b = append(b, "put"...)
	}
	b = append(append(b, `","namespace":`...), JSONString(string(op.Namespace))...)
	b = append(append(b, `,"key":`...), JSONString(string(op.Key))...)
	b = strconv.AppendInt(append(b, `,"schemaVersion":`...), int64(op.Schema), 10)
	b = append(append(b, `,"caller":`...), JSONString(w.Caller.Kind)...)
	b = append(append(b, `,"callerId":`...), JSONString(w.Caller.ID)...)
	b = strconv.AppendInt(append(b, `,"revision":`...), int64(r), 10)
	return append(b, '}')
}

// Audited reports whether the write appends any event. A replayed response appends none.
func (w *Write) Audited(a *Applied) bool {
	if a.Replayed {
		return false
	}
	for i := range a.Items {
		if w.Ops[i].Kind == Put || w.Ops[i].Kind == Delete && a.Items[i].Existed {
			return true
		}
	}
	return false
}

// JSONString encodes s as JSON encoding/json would, without HTML characters.
func JSONString(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }) {
		return `"` + s + `"` // the common case is ten times faster
	}
	text, _ := json.Marshal(s)
	return string(text)
}
