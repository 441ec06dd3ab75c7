package extstorage

import (
	"errors"
	"maps"
	"slices"

	"holdfast/internal/canonjson"
)

// Revise computes a put's value from the current value, which is "" if there is no record. sum is the result of an
// increment.
type Revise func(before canonjson.Value) (value canonjson.Value, sum canonjson.Number, err error)

// Revises reports whether any operation needs the stored value.
func (w *Write) Revises() bool {
	return slices.ContainsFunc(w.Ops, func(op Op) bool { return op.Revise != nil })
}

// Validated reports whether any Revise validates by a schema, which may take half a second.
func (w *Write) Validated() bool {
	return slices.ContainsFunc(w.Ops, func(op Op) bool { return op.Revise != nil && op.Schema != 0 })
}

// Fill sets Value and Sum by calling Revise, which must be set: it panics for any other operation. row is the locked row, or
// nil if the record does not exist, and value its value. A store calls Fill before Decide, on its own copy of Write.Ops.
// The error is Revise's, or *MismatchError.
func (op *Op) Fill(row *Header, value canonjson.Value, now Moment) (err error) {
	if !row.Live(now) {
		row, value = nil, ""
	}
	at := itemOf(row)
	if err := op.Precondition.Check(at.Revision, at.Seq); err != nil {
		return err
	}
	return op.fill(value)
}

// fill sets Value and Sum from Revise.
func (op *Op) fill(before canonjson.Value) (err error) {
	op.Value, op.Sum, err = op.Revise(before)
	return err
}

// FailAt returns a write in which an operation that always fails replaces operation i and those after it.
func (w Write) FailAt(i int, ns Namespace, key Key) Write {
	never := Op{Kind: Check, Namespace: ns, Key: key, Precondition: Precondition{Match: Tags{Set: true}}}
	w.Ops = append(slices.Clip(w.Ops[:i]), never)
	return w
}

// Optimistic is a write computed from unlocked reads. It fails if a record changed after the read.
type Optimistic struct {
	Write Write
	After Known

	failed *ItemError // operation that fails because of a value read
	last   bool       // no further write can use After: the expiry of a written record is unknown
	pinned []bool
}

// Known holds record values after the writes so far. A missing entry is unknown; an entry with value "" means that
// there is no record. Write.Optimistic does not change it.
type Known map[recordKey]knownValue

type knownValue struct {
	value   canonjson.Value
	expires Moment // 0 means never
}

// Optimistic computes the write's values from get, which may return ErrNoRecord. Values in known are not read; such a
// write is valid only directly after the writes that produced them.
func (w Write) Optimistic(known Known, get func(Namespace, Key) (Record, error)) (*Optimistic, error) {
	w.Ops = slices.Clone(w.Ops)
	a := &Optimistic{After: known, pinned: make([]bool, len(w.Ops)+1)}
	after := make(Known, len(known)+len(w.Ops))
	maps.Copy(after, known)
	for i := range w.Ops {
		op := &w.Ops[i]
		at := recordKey{op.Namespace, op.Key}
		before, isKnown := after[at]
		if before.expires.Reached(w.Now) {
			before = knownValue{}
		}
		a.last = a.last || op.Keep && op.Revise == nil && !isKnown
		if op.Revise != nil {
			var read *Record
			if !isKnown {
				rec, err := get(at.Namespace, at.Key)
				if err != nil && !errors.Is(err, ErrNoRecord) {
					return nil, err
				}
				read, before = &rec, knownValue{rec.Value, rec.ExpiresAt}
			}
			if err := op.revise(before.value, read); err != nil {
				return a.fail(w, i, err), nil
			}
			a.pinned[i] = read != nil
		}
		op.leave(after, before)
	}
	a.Write, a.After = w, after
	return a, nil
}

// revise computes an operation's value. read is nil if the previous value is known; otherwise that record must not
// change before the write.
func (op *Op) revise(before canonjson.Value, read *Record) error {
	if read != nil {
		if err := op.Precondition.Check(read.Revision, read.Seq); err != nil {
			return err
		}
	}
	if err := op.fill(before); err != nil {
		return err
	}
	if read != nil {
		op.Precondition = unchanged(read.Seq)
	}
	op.Revise = nil
	return nil
}

// fail ends the write at operation i, whose value could not be computed. The operation only checks its precondition,
// because a mismatch takes precedence over err.
func (a *Optimistic) fail(w Write, i int, err error) *Optimistic {
	op := &w.Ops[i]
	*op = Op{Kind: Check, Namespace: op.Namespace, Key: op.Key, Precondition: op.Precondition}
	a.failed, a.Write = &ItemError{i, err}, w.FailAt(i+1, op.Namespace, op.Key)
	return a
}

// leave notes the record after the operation.
func (op *Op) leave(known Known, before knownValue) {
	at := recordKey{op.Namespace, op.Key}
	switch {
	case op.Kind == Delete:
		known[at] = knownValue{}
	case op.Kind == Put && !op.Keep:
		known[at] = knownValue{op.Value, op.ExpiresAt}
	case op.Kind == Put && before.value != "":
		known[at] = knownValue{op.Value, before.expires}
	case op.Kind == Put:
		known[at] = knownValue{op.Value, op.ExpiresAt}
	}
}

// unchanged requires that the record still has this change number; 0 means that it must not exist.
func unchanged(seq Seq) Precondition {
	if seq == 0 {
		return Precondition{Revision: Some[Revision](0)}
	}
	return Precondition{Match: Tags{Set: true, Seqs: []Seq{seq}}}
}

// Last reports whether no further write can be computed from After.
func (a *Optimistic) Last() bool { return a.failed != nil || a.last }

// Done returns the error if the first operation fails, so that the Store need not be called. With an idempotency key
// it returns nil, because the Store may have a stored response.
func (a *Optimistic) Done() error {
	if a.failed != nil && a.failed.Index == 0 && a.Write.IdempotencyKey == nil {
		return a.failed
	}
	return nil
}

// Result converts the Store's error to the error of this write, and reports whether a record changed since it was
// read.
func (a *Optimistic) Result(err error) (changed bool, _ error) {
	item, ok := errors.AsType[*ItemError](err)
	if !ok {
		return false, err
	}
	if a.failed != nil && item.Index == a.failed.Index+1 {
		return false, a.failed
	}
	_, mismatch := errors.AsType[*MismatchError](err)
	return mismatch && a.pinned[item.Index], err
}
