package extstorage

import (
	"context"
	"errors"

	"holdfast/internal/canonjson"
	"holdfast/internal/fault"
)

// TaskKind is what a client wants of a record.
type TaskKind uint8

// The tasks of a client.
const (
	PutTask TaskKind = iota
	DeleteTask
	CheckTask     // holds its precondition and changes nothing
	PatchTask     // merges Value into the record's by RFC 7396
	IncrementTask // adds to a number in the record's value
)

// Task is something to be done with one record.
type Task struct {
	Kind         TaskKind
	Namespace    Namespace
	Key          Key
	Precondition Precondition

	Value     canonjson.Value // of a put; the patch of a patch
	Metadata  canonjson.Value // of a put; empty: none
	TTL       Optional[int64] // of a put, in seconds; not set: the record does not expire
	Schema    Optional[SchemaVersion]
	Increment canonjson.Increment

	until Moment // of a put that an import makes: when the record expires
}

// Result is the answer to a task.
type Result struct {
	Namespace Namespace
	Key       Key
	Item
	Sum      canonjson.Number // of an increment; empty in an answer that is repeated when the record has changed since
	Replayed bool             // the request was done before, by its IdempotencyKey, and nothing now
}

// access is what the task needs. What comes of a patch or an increment tells of
// what was stored.
func (t *Task) access() Access {
	switch t.Kind {
	case CheckTask:
		return Read
	case PatchTask, IncrementTask:
		return Read | Modify
	}
	return Modify
}

// checkTask holds what a task brings against the limits. Places are in a body
// that has its members under their names.
func (s *Service) checkTask(t *Task) error {
	if _, err := ParseNamespace(string(t.Namespace)); err != nil {
		return under("/namespace", err)
	}
	if _, err := ParseKey(string(t.Key)); err != nil {
		return under("/key", err)
	}
	switch {
	case (t.Kind == PutTask || t.Kind == PatchTask) && t.Value == "":
		return &ValidationError{Pointer: "/value", Reason: "is missing"}
	case t.Kind == IncrementTask && t.Increment.By == "":
		return &ValidationError{Pointer: "/by", Reason: "is missing"}
	case len(t.Value) > s.limits.Value, len(t.Metadata) > s.limits.Metadata:
		return canonjson.ErrTooLarge
	case t.Metadata != "" && t.Metadata[0] != '{':
		return &ValidationError{Pointer: "/metadata", Reason: "must be an object"}
	}
	if t.TTL.Set {
		if _, err := s.limits.ExpiresAt(0, t.TTL.Value); err != nil {
			return under("/ttlSeconds", err)
		}
	}
	return nil
}

// Do does one task.
func (s *Service) Do(ctx context.Context, r Request, t Task) (Result, error) {
	results, err := s.write(ctx, r, []Task{t})
	if item, ok := err.(*ItemError); ok { //nolint:errorlint // what wraps one is more than its item's failure
		return Result{}, item.Err
	}
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// ErrTooMany is a bulk put or a batch of too many items, or of too many bytes.
var ErrTooMany error = fault.New(fault.TooLarge, "there are too many items, or they are too large together")

// Batch does tasks in namespaces of one install in their order, all or none. The
// failure of one is an *ItemError.
func (s *Service) Batch(ctx context.Context, r Request, tasks []Task) ([]Result, error) {
	if len(tasks) == 0 {
		return nil, refuse("must not be empty")
	}
	bytes := 0
	for i := range tasks {
		bytes += len(tasks[i].Value) + len(tasks[i].Metadata)
	}
	if len(tasks) > s.limits.Items || bytes > s.limits.ItemsBytes {
		return nil, ErrTooMany
	}
	return s.write(ctx, r, tasks)
}

// BulkPut is Batch of puts with keys of which none is there twice.
func (s *Service) BulkPut(ctx context.Context, r Request, tasks []Task) ([]Result, error) {
	seen := make(map[place]bool, len(tasks))
	for i := range tasks {
		at := place{tasks[i].Namespace, tasks[i].Key}
		if seen[at] {
			return nil, &ItemError{i, &ValidationError{Pointer: "/key", Reason: "is there twice"}}
		}
		seen[at] = true
	}
	return s.Batch(ctx, r, tasks)
}

// place is a record's in an install.
type place struct {
	Namespace Namespace
	Key       Key
}

// plan makes operations of tasks. A patch and an increment become puts of what
// was computed from the record as it was read, guarded by its change.
type plan struct {
	service *Service
	owner   Owner
	now     Moment
	ops     []Op
	pinned  []bool                    // the operation has a precondition of ours
	sums    []canonjson.Number        // of increments
	seen    map[place]canonjson.Value // records as the operations so far leave them; "": absent
}

// make plans all tasks; the failure of one is an *ItemError unless it is ours.
func (a *plan) make(ctx context.Context, tasks []Task) error {
	for i := range tasks {
		t := &tasks[i]
		op := Op{Namespace: t.Namespace, Key: t.Key, Precondition: t.Precondition}
		pinned, sum, err := a.add(ctx, t, &op)
		if err != nil {
			if isClients(err) {
				err = &ItemError{i, err}
			}
			return err
		}
		a.ops, a.pinned, a.sums = append(a.ops, op), append(a.pinned, pinned), append(a.sums, sum)
	}
	return nil
}

// add makes the operation of a task.
func (a *plan) add(ctx context.Context, t *Task, op *Op) (pinned bool, sum canonjson.Number, err error) {
	at := place{t.Namespace, t.Key}
	switch t.Kind {
	case DeleteTask:
		op.Kind, a.seen[at] = Delete, ""
		return false, "", nil
	case CheckTask:
		op.Kind = Check
		return false, "", nil
	case PutTask:
		op.Value, op.Metadata, op.ExpiresAt = t.Value, t.Metadata, t.until
		if t.TTL.Set {
			if op.ExpiresAt, err = a.service.limits.ExpiresAt(a.now, t.TTL.Value); err != nil {
				return false, "", under("/ttlSeconds", err)
			}
		}
	default:
		op.Keep = true
		if pinned, err = a.read(ctx, at, op); err == nil {
			op.Value, sum, err = a.compute(t, a.seen[at])
		}
		if err != nil {
			return false, "", err
		}
	}
	if op.Metadata == "" {
		op.Metadata = canonjson.EmptyObject
	}
	a.seen[at] = op.Value
	op.Schema, err = a.service.validate(ctx, namespaceOf{a.owner, t.Namespace}, op.Value, t.Schema)
	if t.Kind == PutTask {
		err = underValue(err)
	}
	return pinned, sum, err
}

// underValue puts a place in a value to where the value is in the request, but
// what is about the request itself has its place there.
func underValue(err error) error {
	if err == errNotActive { //nolint:errorlint // it is never wrapped
		return err
	}
	return under("/value", err)
}

// read makes the record known to the plan. One that no operation before has
// written is pinned: the client's precondition is judged on what was read, and the
// operation is to find just that.
func (a *plan) read(ctx context.Context, at place, op *Op) (pinned bool, err error) {
	if _, known := a.seen[at]; known {
		return false, nil
	}
	rec, err := a.service.opts.Store.Get(ctx, a.owner, at.Namespace, at.Key, a.now)
	if err != nil && !errors.Is(err, ErrNoRecord) {
		return false, err
	}
	if err := op.Precondition.Check(rec.Revision, rec.Seq); err != nil {
		return false, err
	}
	a.seen[at] = rec.Value
	if rec.Seq == 0 {
		op.Precondition = Precondition{Revision: Some[Revision](0)}
	} else {
		op.Precondition = Precondition{Match: Tags{Set: true, Seqs: []Seq{rec.Seq}}}
	}
	return true, nil
}

// compute is what a patch or an increment makes of a value; "" is no record.
func (a *plan) compute(t *Task, v canonjson.Value) (canonjson.Value, canonjson.Number, error) {
	if t.Kind == PatchTask {
		if v == "" {
			return "", "", ErrNoRecord
		}
		merged, err := v.Merge(t.Value, a.service.limits.Value)
		return merged, "", err
	}
	if v == "" && !t.Increment.Create {
		return "", "", ErrNoRecord
	}
	return t.Increment.Apply(v, a.service.limits.Value)
}

// lost reports whether a write failed by a precondition of ours: the record has changed
// since it was read.
func (a *plan) lost(err error) bool {
	item, ok := errors.AsType[*ItemError](err)
	if !ok || item.Index >= len(a.pinned) || len(a.pinned) != len(a.ops) || !a.pinned[item.Index] {
		return false
	}
	_, mismatch := errors.AsType[*MismatchError](err)
	return mismatch
}

// results are the answers. A request that was done before gets the sums of its
// increments only where the records are still as it left them.
func (s *Service) results(ctx context.Context, o Owner, tasks []Task, a *plan, applied Applied) ([]Result, error) {
	if len(applied.Items) != len(tasks) { // the caller's hash does not tell requests apart
		return nil, ErrKeyReused
	}
	results := make([]Result, len(tasks))
	for i := range tasks {
		t := &tasks[i]
		results[i] = Result{Namespace: t.Namespace, Key: t.Key, Item: applied.Items[i], Replayed: applied.Replayed}
		if t.Kind != IncrementTask {
			continue
		}
		if !applied.Replayed {
			results[i].Sum = a.sums[i]
			continue
		}
		rec, err := s.opts.Store.Get(ctx, o, t.Namespace, t.Key, a.now)
		if err != nil && !errors.Is(err, ErrNoRecord) {
			return nil, err
		}
		if rec.Seq != 0 && rec.Seq == applied.Items[i].Seq {
			if sum, found := rec.Value.Lookup(t.Increment.Pointer); found {
				results[i].Sum = canonjson.Number(sum)
			}
		}
	}
	return results, nil
}
