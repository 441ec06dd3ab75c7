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

// AuditHead is the payload of the event of an operation up to its last member,
// the revision that was written or deleted: who decides on that appends it, and
// "}".
func (w *Write) AuditHead(i int) string {
	op := &w.Ops[i]
	word := "put"
	if op.Kind == Delete {
		word = "delete"
	}
	return `{"operation":"` + word + `","namespace":` + quote(string(op.Namespace)) + `,"key":` + quote(string(op.Key)) +
		`,"schemaVersion":` + strconv.Itoa(int(op.Schema)) +
		`,"caller":` + quote(w.Caller.Kind) + `,"callerId":` + quote(w.Caller.ID) + `,"revision":`
}

// quote is a string in JSON.
func quote(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }) {
		return `"` + s + `"` // as nearly all are, which takes a tenth of the time
	}
	text, _ := json.Marshal(s) // strings are always JSON
	return string(text)
}
