package extstorage

import (
	"fmt"
	"slices"

	"holdfast/internal/errcode"
)

// Counters count the live records of an install at a time. A backend stores them
// with that time, CountedAt. The passing of time does not change them: a record
// that expires after CountedAt still counts. Only a write that they do not allow,
// or whose clock is behind CountedAt, moves them to its own time, by counting the
// stored records that expire between the two.
type Counters struct {
	Bytes      int64
	Keys       int64
	Namespaces int64 // that have a key
}

// QuotaError means that a write would exceed a quota of the install.
type QuotaError struct {
	What  string // "namespaces", "keys" or "bytes"
	Limit int64
	Used  int64 // after the write
}

// quotaOf describes what a quota counts.
var quotaOf = map[string]string{
	"namespaces": "namespaces of the install", "keys": "keys in a namespace", "bytes": "bytes of the install",
}

// NamespaceQuota returns the error for a namespace that would exceed the quota.
func NamespaceQuota(q Quota, used int64) *QuotaError {
	return &QuotaError{What: "namespaces", Limit: q.Namespaces, Used: used}
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the quota of %d %s is used up: delete records, or ask the operator for a larger quota", e.Limit, quotaOf[e.What])
}

// ErrorCode implements errcode.Coder.
func (e *QuotaError) ErrorCode() errcode.Code { return errcode.Quota }

// Ledger tracks an install through the operations of a write and checks the result
// against its quota. A count that did not grow is never an error, so an install
// over its quota can still shrink.
type Ledger struct {
	before Counters
	notes  []note
	spare  int64 // namespaces that count toward the quota but are not in the notes
}

// note holds the counts of the install and of the operation's namespace after the
// operation.
type note struct {
	Counters
	namespace  Namespace
	keysBefore int64
	keys       int64
}

// NewLedger returns a ledger that starts with the counters before the write.
func NewLedger(before Counters) Ledger { return Ledger{before: before} }

// Note records an operation, in order: the counters of the install after it, and
// the number of keys in the operation's namespace before and after it. Pass the
// same number twice if it did not change.
func (l *Ledger) Note(now Counters, ns Namespace, keysBefore, keys int64) {
	l.notes = append(l.notes, note{now, ns, keysBefore, keys})
}

// Reserve counts namespaces toward the quota that are not in Counters: those with
// a schema but without keys.
func (l *Ledger) Reserve(namespaces int64) { l.spare = namespaces }

// Fits reports whether no operation exceeds a quota. It is for counters of an
// earlier time, which are never too low. It is not valid for a put over an expired
// row that these counters still include: the key is new, but the counters do not
// show that.
func (l *Ledger) Fits(q Quota) bool {
	for i := range l.notes {
		if n := &l.notes[i]; n.Bytes > q.Bytes || n.Namespaces+l.spare > q.Namespaces || n.keys > q.Keys {
			return false
		}
	}
	return true
}

// Check returns nil, or an *ItemError with the *QuotaError of the operation that
// first exceeded a quota for good. If several quotas are exceeded, it reports the
// first of: namespaces, the keys of a namespace in the order in which the write
// changes them, bytes.
func (l *Ledger) Check(q Quota) error {
	namespaces := func(n *note) (int64, bool) { return n.Namespaces + l.spare, true }
	if err := l.check("namespaces", q.Namespaces, l.before.Namespaces+l.spare, namespaces); err != nil {
		return err
	}
	var seen []Namespace
	for i := range l.notes {
		first := &l.notes[i]
		if first.keys == first.keysBefore || slices.Contains(seen, first.namespace) {
			continue
		}
		seen = append(seen, first.namespace)
		keys := func(n *note) (int64, bool) { return n.keys, n.namespace == first.namespace && n.keys != n.keysBefore }
		if err := l.check("keys", q.Keys, first.keysBefore, keys); err != nil {
			return err
		}
	}
	return l.check("bytes", q.Bytes, l.before.Bytes, func(n *note) (int64, bool) { return n.Bytes, true })
}

// check checks one counter, for the operations for which count returns true.
func (l *Ledger) check(what string, limit, before int64, count func(*note) (int64, bool)) error {
	used, over := int64(0), -1
	for i := range l.notes {
		n, ok := count(&l.notes[i])
		if !ok {
			continue
		}
		switch used = n; {
		case used <= limit || used <= before:
			over = -1
		case over < 0:
			over = i
		}
	}
	if over < 0 {
		return nil
	}
	return &ItemError{over, &QuotaError{What: what, Limit: limit, Used: used}}
}
