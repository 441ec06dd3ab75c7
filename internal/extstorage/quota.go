package extstorage

import (
	"fmt"

	"holdfast/internal/fault"
)

// Counters are what an install has: rows that are there, those that have expired
// and are not removed yet included.
type Counters struct {
	Bytes      int64
	Keys       int64
	Namespaces int64 // that have a key
}

// QuotaError is a write that would take an install over one of its quotas.
type QuotaError struct {
	What  string // "namespaces", "keys" or "bytes"
	Limit int64
	Used  int64 // after the write

	// Expired says that expired records of the install are left, which could
	// make room: Store.Reclaim removes them, and the write may come again.
	Expired bool
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the quota of %d %s is used up", e.Limit, e.What)
}

// FaultCode implements fault.Coder.
func (e *QuotaError) FaultCode() fault.Code { return fault.Quota }

// Ledger follows an install through the operations of a write, to hold what it
// has at the end against its quota. What has not grown by then is never refused,
// so that who is over a quota can still shrink. The zero value is no ledger.
type Ledger struct {
	before Counters
	notes  []note
	freed  Counters
	keys   map[Namespace]int64 // freed
}

// note is what the install, and the operation's namespace, had after it.
type note struct {
	Counters
	namespace  Namespace
	keysBefore int64
	keys       int64
}

// NewLedger begins with what the install has before the write.
func NewLedger(before Counters) Ledger { return Ledger{before: before} }

// Note is for each operation in turn: what the install has after it, and how
// many keys the operation's namespace had before and has after it.
func (l *Ledger) Note(now Counters, ns Namespace, keysBefore, keys int64) {
	l.notes = append(l.notes, note{now, ns, keysBefore, keys})
}

// Freed takes expired records off, as if they had been removed before the write:
// how many keys of a namespace, their bytes, and 1 if it was left without keys.
func (l *Ledger) Freed(ns Namespace, keys, bytes, namespaces int64) {
	if l.keys == nil {
		l.keys = map[Namespace]int64{}
	}
	l.keys[ns] += keys
	l.freed.Bytes += bytes
	l.freed.Namespaces += namespaces
}

// Check is nil, or the *ItemError with the *QuotaError of the operation since
// which the install is over a quota. Of several quotas the first counts:
// namespaces, the keys of a namespace in the order in which the write came to
// them, bytes.
func (l *Ledger) Check(q Quota) error {
	if err := l.check("namespaces", q.Namespaces, 0, l.before.Namespaces, l.freed.Namespaces, func(n *note) (int64, bool) { return n.Namespaces, true }); err != nil {
		return err
	}
	for i := range l.notes {
		first := &l.notes[i]
		keys := func(n *note) (int64, bool) { return n.keys, n.namespace == first.namespace }
		if err := l.check("keys", q.Keys, i, first.keysBefore, l.keys[first.namespace], keys); err != nil {
			return err
		}
	}
	return l.check("bytes", q.Bytes, 0, l.before.Bytes, l.freed.Bytes, func(n *note) (int64, bool) { return n.Bytes, true })
}

// check looks at one counter in the operations from the first on that count says
// something of.
func (l *Ledger) check(what string, limit int64, first int, before, freed int64, count func(*note) (int64, bool)) error {
	before, used, over := before-freed, int64(0), -1
	for i := first; i < len(l.notes); i++ {
		n, ok := count(&l.notes[i])
		if !ok {
			continue
		}
		switch used = n - freed; {
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
