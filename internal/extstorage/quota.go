package extstorage

import (
	"fmt"
	"slices"

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
// so that who is over a quota can still shrink.
type Ledger struct {
	before Counters
	notes  []note
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
// many keys the operation's namespace had before and has after it, or twice the
// same number if it leaves them as many as they were.
func (l *Ledger) Note(now Counters, ns Namespace, keysBefore, keys int64) {
	l.notes = append(l.notes, note{now, ns, keysBefore, keys})
}

// Check is nil, or the *ItemError with the *QuotaError of the operation since
// which the install is over a quota. Of several quotas the first counts:
// namespaces, the keys of a namespace in the order in which the write comes to
// make them more or fewer, bytes.
func (l *Ledger) Check(q Quota) error {
	namespaces := func(n *note) (int64, bool) { return n.Namespaces, true }
	if err := l.check("namespaces", q.Namespaces, l.before.Namespaces, namespaces); err != nil {
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

// check looks at one counter, in the operations that count says something of.
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
