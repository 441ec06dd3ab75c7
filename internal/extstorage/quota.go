package extstorage

import (
	"fmt"
	"slices"

	"holdfast/internal/errcode"
)

// Counters count an install's live records as of a time. Records that expire later still count.
type Counters struct {
	Bytes      int64
	Keys       int64
	Namespaces int64
}

// QuotaError means that a write would exceed a quota.
type QuotaError struct {
	What  string // "namespaces", "keys" or "bytes"
	Limit int64
	Used  int64 // after the write
}

// quotaOf words QuotaError.What for people.
var quotaOf = map[string]string{
	"namespaces": "namespaces of the install", "keys": "keys in a namespace", "bytes": "bytes of the install",
}

// NamespaceQuota returns the error for too many namespaces.
func NamespaceQuota(q Quota, used int64) *QuotaError {
	return &QuotaError{What: "namespaces", Limit: q.Namespaces, Used: used}
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the quota of %d %s is used up: delete records, or ask the operator for a larger quota", e.Limit, quotaOf[e.What])
}

// ErrorCode returns errcode.Quota.
func (e *QuotaError) ErrorCode() errcode.Code { return errcode.Quota }

// Ledger tracks a write's operations and checks the result against the quota. Counts that did not grow never fail, so
// an install over its quota can shrink.
//
// Before Check or Fits, call Note for each operation, in order, and Reserve. A Ledger is not safe for concurrent use.
type Ledger struct {
	before Counters
	notes  []note
	spare  int64 // namespaces added by Reserve
}

// note is the state after an operation.
type note struct {
	Counters
	namespace  Namespace
	keysBefore int64
	keys       int64 // in its namespace
}

// NewLedger starts with the counters before the write.
func NewLedger(before Counters) Ledger { return Ledger{before: before} }

// Note records the next operation: the install's counters after it, and the keys of its namespace before and after.
func (l *Ledger) Note(now Counters, ns Namespace, keysBefore, keys int64) {
	l.notes = append(l.notes, note{now, ns, keysBefore, keys})
}

// Reserve adds namespaces that Counters do not count, because they contain a schema but no keys.
func (l *Ledger) Reserve(namespaces int64) { l.spare = namespaces }

// Fits reports whether no operation exceeds a quota. Counters of an earlier time suffice, because they are never too low,
// with one exception: a put that replaces a counted expired record adds a key without increasing them. Do not use Fits
// then.
func (l *Ledger) Fits(q Quota) bool {
	for i := range l.notes {
		if n := &l.notes[i]; n.Bytes > q.Bytes || n.Namespaces+l.spare > q.Namespaces || n.keys > q.Keys {
			return false
		}
	}
	return true
}

// Check returns an *ItemError with the *QuotaError of the operation after which a quota stays exceeded.
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

// check finds the operation from which on a count exceeds its limit until the end. Operations before it may exceed it
// for a while: only the result counts. before is the count before the write.
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
