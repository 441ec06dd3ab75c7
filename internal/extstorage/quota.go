package extstorage

import (
	"fmt"
	"slices"

	"holdfast/internal/fault"
)

// Counters count the records of an install that are live at a moment. A backend
// stores them with that moment, CountedAt. Time does not change them: a record that
// expires after CountedAt still counts. Only a write that they do not allow, or
// whose clock is behind CountedAt, moves them to its own moment, by counting the
// stored records that expire between the two.
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
}

// quotaOf says what a quota counts.
var quotaOf = map[string]string{
	"namespaces": "namespaces of the install", "keys": "keys in a namespace", "bytes": "bytes of the install",
}

// NamespaceQuota is the refusal of a namespace more than a quota allows.
func NamespaceQuota(q Quota, used int64) *QuotaError {
	return &QuotaError{What: "namespaces", Limit: q.Namespaces, Used: used}
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the quota of %d %s is used up: delete records, or ask the operator for a larger quota", e.Limit, quotaOf[e.What])
}

// FaultCode implements fault.Coder.
func (e *QuotaError) FaultCode() fault.Code { return fault.Quota }

// Ledger follows an install through the operations of a write, to hold what it
// has at the end against its quota. What has not grown by then is never refused,
// so that who is over a quota can still shrink.
type Ledger struct {
	before Counters
	notes  []note
	spare  int64 // namespaces that count and are not in the notes
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

// Reserve counts namespaces toward the quota that none of the Counters have: those with
// a schema and no key.
func (l *Ledger) Reserve(namespaces int64) { l.spare = namespaces }

// Fits reports whether no quota is exceeded after any operation. It is the test
// for counters of an earlier moment, which are never too low. It does not hold for
// a put over a row that these still count and that has expired: the key is new, and
// the counters do not show it.
func (l *Ledger) Fits(q Quota) bool {
	for i := range l.notes {
		if n := &l.notes[i]; n.Bytes > q.Bytes || n.Namespaces+l.spare > q.Namespaces || n.keys > q.Keys {
			return false
		}
	}
	return true
}

// Check is nil, or the *ItemError with the *QuotaError of the operation since
// which the install is over a quota. Of several quotas the first counts:
// namespaces, the keys of a namespace in the order in which the write comes to
// make them more or fewer, bytes.
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
