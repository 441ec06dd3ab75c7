package extstorage

import (
	"encoding/json"
	"strconv"
	"strings"
)

// The audit is a stream of events for each install, numbered as its changes
// are: one for every put, and for every delete that found a record.
const (
	AuditTable  = "ext_storage_outbox"
	AuditPut    = "extstorage.put"    // topic
	AuditDelete = "extstorage.delete" // topic
)

// AuditKey is what the event of an operation is about.
func (op *Op) AuditKey() string { return string(op.Namespace) + "/" + string(op.Key) }

// AuditPayload is the payload of the event of an operation, with the revision that
// was written or deleted. An engine that decides on the revision by itself builds
// the same JSON there.
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

// Audited reports whether the write has appended an event: it has for each put,
// and for each delete that found a record.
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

// JSONString is a string in JSON.
func JSONString(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }) {
		return `"` + s + `"` // as nearly all are, which takes a tenth of the time
	}
	text, _ := json.Marshal(s) // strings are always JSON
	return string(text)
}
