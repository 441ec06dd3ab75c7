package extstorage

import (
	"errors"
	"maps"
	"slices"

	"holdfast/internal/canonjson"
)

// Revise makes the value of a put from the record's value; "" is no record. sum is
// the result of an increment.
type Revise func(before canonjson.Value) (value canonjson.Value, sum canonjson.Number, err error)

// Revises reports whether the value of an operation depends on what is stored.
func (w *Write) Revises() bool {
	return slices.ContainsFunc(w.Ops, func(op Op) bool { return op.Revise != nil })
}

// Validated reports whether the Revise of an operation validates by a schema, which
// may take half a second.
func (w *Write) Validated() bool {
	return slices.ContainsFunc(w.Ops, func(op Op) bool { return op.Revise != nil && op.Schema != 0 })
}

// Fill makes the value of a put with Revise from a row that the lock protects, nil
// when there is none, and the value in it. Errors: *MismatchError and those of Revise.
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

func (op *Op) fill(before canonjson.Value) (err error) {
	op.Value, op.Sum, err = op.Revise(before)
	return err
}

// FailAt returns the write with only the operations before the i-th, and one that
// always fails in its place: its own failure is known, and the Store still looks
// for a failure before it and for a kept answer.
func (w Write) FailAt(i int, ns Namespace, key Key) Write {
	never := Op{Kind: Check, Namespace: ns, Key: key, Precondition: Precondition{Match: Tags{Set: true}}}
	w.Ops = append(slices.Clip(w.Ops[:i]), never)
	return w
}

// Optimistic is a write whose values were made of records that were read without the
// lock. Each of those has a precondition, so that the write fails if the record has
// changed since.
type Optimistic struct {
	Write Write // without Revise
	After Known // what is known when the write is done

	failed *ItemError // an operation fails by what was read
	last   bool       // when a record expires that it leaves is not known
	pinned []bool     // the operation has a precondition of ours
}

// Known is records as the writes so far leave them.
type Known map[place]knownValue

type knownValue struct {
	value   canonjson.Value // "": there is no record
	expires Moment          // 0: never
}

// Optimistic makes the values of a write of what get reads: a record, or ErrNoRecord.
// What is known is not read; then the write is good only right after the ones by which
// it is known. An error is one of get.
func (w Write) Optimistic(known Known, get func(Namespace, Key) (Record, error)) (*Optimistic, error) {
	w.Ops = slices.Clone(w.Ops)
	a := &Optimistic{After: known, pinned: make([]bool, len(w.Ops)+1)}
	after := make(Known, len(known)+len(w.Ops))
	maps.Copy(after, known)
	for i := range w.Ops {
		op := &w.Ops[i]
		at := place{op.Namespace, op.Key}
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

// revise makes the value of an operation of the one before. read is the record of that
// value, which must not change before the write; nil: the value is known.
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

// fail makes the write end at operation i, which fails by what was read.
func (a *Optimistic) fail(w Write, i int, err error) *Optimistic {
	op := &w.Ops[i]
	*op = Op{Kind: Check, Namespace: op.Namespace, Key: op.Key, Precondition: op.Precondition}
	a.failed, a.Write = &ItemError{i, err}, w.FailAt(i+1, op.Namespace, op.Key)
	return a
}

// leave makes known what the operation leaves of what was there before.
func (op *Op) leave(known Known, before knownValue) {
	at := place{op.Namespace, op.Key}
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

// unchanged is the precondition that a record is the one of a change; 0: that there
// is none.
func unchanged(seq Seq) Precondition {
	if seq == 0 {
		return Precondition{Revision: Some[Revision](0)}
	}
	return Precondition{Match: Tags{Set: true, Seqs: []Seq{seq}}}
}

// Last reports whether no other write can be made of After.
func (a *Optimistic) Last() bool { return a.failed != nil || a.last }

// Done returns the error of a write that has failed already: it was its first operation,
// and there cannot be a kept answer.
func (a *Optimistic) Done() error {
	if a.failed != nil && a.failed.Index == 0 && a.Write.IdempotencyKey == nil {
		return a.failed
	}
	return nil
}

// Result returns the error of the write by the one that the Store has for it, and
// whether a record has changed since it was read.
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
