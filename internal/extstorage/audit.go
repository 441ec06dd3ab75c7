package extstorage

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Each install has a stream of audit events, numbered like its changes: one event
// for each put, and for each delete that found a record.
const (
	AuditTable  = "ext_storage_outbox"
	AuditPut    = "extstorage.put"    // topic
	AuditDelete = "extstorage.delete" // topic
)

// AuditKey returns the key of an operation's audit event.
func (op *Op) AuditKey() string { return string(op.Namespace) + "/" + string(op.Key) }

// AuditPayload returns the payload of an operation's audit event, with the
// revision that was written or deleted. An engine that computes the revision
// itself builds the same JSON there.
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

// Audited reports whether the write appended an event: each put does, and each
// delete that found a record.
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

// JSONString encodes a string as JSON.
func JSONString(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }) {
		return `"` + s + `"` // the usual case, in a tenth of the time
	}
	text, _ := json.Marshal(s) // marshaling a string cannot fail
	return string(text)
}
