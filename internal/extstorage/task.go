package extstorage

import (
	"context"
	"strings"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

// TaskKind is a client operation.
type TaskKind uint8

// Client tasks.
const (
	PutTask TaskKind = iota
	DeleteTask
	CheckTask     // only checks the precondition
	PatchTask     // applies Value as a merge patch (RFC 7396)
	IncrementTask // adds to a number in the value
)

// Task is a client operation on a record.
type Task struct {
	Kind         TaskKind
	Namespace    Namespace
	Key          Key
	Precondition Precondition

	Value     canonjson.Value         // value to put, or the patch
	Metadata  canonjson.Value         // of a put; may be ""
	TTL       Optional[int64]         // of a put, in seconds; if unset, it never expires
	Schema    Optional[SchemaVersion] // version that must be active
	Increment canonjson.Increment     // for IncrementTask

	// These fields are for imported puts:

	until     Moment
	restored  *Restored     // if nil, the record continues its own revisions
	validated SchemaVersion // version imported as active, which must not validate the value again
}

// Result is the outcome of a task.
type Result struct {
	Namespace Namespace
	Key       Key
	Item
	Replayed bool
}

// access returns the access that the task needs. Patches and increments reveal the stored value, so they need Read.
func (t *Task) access() Access {
	switch t.Kind {
	case CheckTask:
		return Read
	case PatchTask, IncrementTask:
		return Read | Modify
	}
	return Modify
}

// checkTask validates the parts that need no database.
func (s *Service) checkTask(t *Task) error {
	if _, err := ParseNamespace(string(t.Namespace)); err != nil {
		return Under("/namespace", err)
	}
	if _, err := ParseKey(string(t.Key)); err != nil {
		return Under("/key", err)
	}
	switch {
	case t.Kind == PutTask && t.Value == "":
		return Lack("value", "")
	case t.Kind == PatchTask && t.Value == "":
		return refuse("is empty: expected a JSON merge patch")
	case t.Kind == IncrementTask && t.Increment.By == "":
		return Lack("by", "a number")
	case len(t.Value) > s.limits.Value:
		return tooMany(t.pointerInRequest(""), "bytes", s.limits.Value, len(t.Value))
	case len(t.Metadata) > s.limits.Metadata:
		return tooMany("/metadata", "bytes", s.limits.Metadata, len(t.Metadata))
	case t.Metadata != "" && t.Metadata[0] != '{':
		return &ValidationError{Pointer: "/metadata", Reason: "must be a JSON object"}
	}
	if t.TTL.Set {
		if _, err := s.limits.ExpiresAt(0, t.TTL.Value); err != nil {
			return Under("/ttlSeconds", err)
		}
	}
	return nil
}

// Do runs a single task. Its error is not an *ItemError.
func (s *Service) Do(ctx context.Context, r Request, t Task) (Result, error) {
	results, err := s.write(ctx, r, []Task{t})
	if item, ok := err.(*ItemError); ok { //nolint:errorlint // what wraps an ItemError is more than its failure
		return Result{}, item.Err
	}
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// tooMany is the error for something too large.
func tooMany(pointer, unit string, limit, size int) *LimitError {
	return &LimitError{Pointer: pointer, Limit: int64(limit), Size: int64(size), Unit: unit}
}

// Batch runs an install's tasks in order, all or nothing. A task's error is an *ItemError.
func (s *Service) Batch(ctx context.Context, r Request, tasks []Task) ([]Result, error) {
	if len(tasks) == 0 {
		return nil, refuse("must not be empty")
	}
	bytes := 0
	for i := range tasks {
		bytes += len(tasks[i].Value) + len(tasks[i].Metadata)
	}
	switch {
	case len(tasks) > s.limits.Items:
		return nil, tooMany("", "items", s.limits.Items, len(tasks))
	case bytes > s.limits.ItemsBytes:
		return nil, tooMany("", "bytes of values and metadata", s.limits.ItemsBytes, bytes)
	}
	return s.write(ctx, r, tasks)
}

// BulkPut is like Batch, but for puts with unique keys.
func (s *Service) BulkPut(ctx context.Context, r Request, tasks []Task) ([]Result, error) {
	seen := make(map[recordKey]bool, len(tasks))
	for i := range tasks {
		at := recordKey{tasks[i].Namespace, tasks[i].Key}
		if seen[at] {
			return nil, &ItemError{i, &ValidationError{Pointer: "/key", Reason: "is a duplicate: each key may occur once"}}
		}
		seen[at] = true
	}
	return s.Batch(ctx, r, tasks)
}

// recordKey is a record within an install.
type recordKey struct {
	Namespace Namespace
	Key       Key
}

// plan turns tasks into operations.
type plan struct {
	service *Service
	owner   Owner
	now     Moment
	ops     []Op

	guesses bool          // assume that namespaces missing from the cache have no schema
	guessed []namespaceOf // namespaces for which it was assumed
}

// make plans the tasks in order, and stops at the first that fails.
func (a *plan) make(ctx context.Context, tasks []Task) error {
	for i := range tasks {
		t := &tasks[i]
		op := Op{Namespace: t.Namespace, Key: t.Key, Precondition: t.Precondition}
		if err := a.add(ctx, t, &op); err != nil {
			if isClients(err) {
				err = &ItemError{i, err}
			}
			return err
		}
		a.ops = append(a.ops, op)
	}
	return nil
}

// add completes an operation.
func (a *plan) add(ctx context.Context, t *Task, op *Op) (err error) {
	at := namespaceOf{a.owner, t.Namespace}
	switch t.Kind {
	case DeleteTask:
		op.Kind = Delete
		return nil
	case CheckTask:
		op.Kind = Check
		return nil
	case PutTask:
		op.Value, op.Metadata, op.ExpiresAt = t.Value, t.Metadata, t.until
		if t.TTL.Set {
			if op.ExpiresAt, err = a.service.limits.ExpiresAt(a.now, t.TTL.Value); err != nil {
				return Under("/ttlSeconds", err)
			}
		}
		op.Restored = t.restored
		if t.validated > 0 {
			if active, err := a.service.activeSchema(ctx, at); err != nil || active.Version == t.validated {
				op.Schema = active.Version
				return err
			}
		}
		if a.guesses && !t.Schema.Set {
			if _, cached := a.service.schemas.get(at); !cached {
				a.guessed = append(a.guessed, at)
				break
			}
		}
		op.Schema, err = a.service.validate(ctx, at, t.Value, t.Schema)
		err = t.inRequest(err)
	default:
		op.Keep = true
		err = a.revise(ctx, t, op)
	}
	if op.Metadata == "" {
		op.Metadata = canonjson.EmptyObject
	}
	return err
}

// revise plans a patch or increment: the value is computed and validated when the record is locked.
func (a *plan) revise(ctx context.Context, t *Task, op *Op) error {
	at := namespaceOf{a.owner, t.Namespace}
	schema, cached := a.service.schemas.get(at)
	if !cached {
		var err error
		if schema, err = a.service.loadSchema(ctx, at); err != nil {
			return err
		}
	}
	op.Schema = schema.Version
	op.Revise = func(before canonjson.Value) (canonjson.Value, canonjson.Number, error) {
		v, sum, err := a.service.compute(t, before)
		if err == nil {
			err = t.inRequest(a.service.hold(ctx, at.Tenant, schema, v, Optional[SchemaVersion]{}))
			if cached && errcode.Is(err, errcode.Invalid) {
				err = &outdatedError{err, at, schema}
			}
		}
		return v, sum, err
	}
	return nil
}

// outdatedError is a rejection by a cached schema, which may be outdated.
type outdatedError struct {
	error

	at     namespaceOf
	schema Schema
}

func (e *outdatedError) Unwrap() error { return e.error }

// compute applies a patch or increment to v; "" means that there is no record.
func (s *Service) compute(t *Task, v canonjson.Value) (canonjson.Value, canonjson.Number, error) {
	if t.Kind == PatchTask {
		if v == "" {
			return "", "", ErrNoRecord
		}
		merged, err := v.Merge(t.Value, s.limits.Value)
		if large, ok := err.(*LimitError); ok { //nolint:errorlint // Merge does not wrap it
			large.Unit = "bytes after the merge"
		}
		return merged, "", t.inRequest(err)
	}
	if v == "" && !t.Increment.Create {
		return "", "", ErrNoRecord
	}
	changed, sum, err := t.Increment.Apply(v, s.limits.Value)
	if large, ok := err.(*LimitError); ok { //nolint:errorlint // Apply does not wrap it
		large.Pointer, large.Unit = "", strings.Replace(large.Unit, "bytes", "bytes after the increment", 1) // its place is in the value
	}
	return changed, sum, err
}

// results joins tasks and items.
func results(tasks []Task, applied Applied) ([]Result, error) {
	if len(applied.Items) != len(tasks) { // two different requests with the same hash
		return nil, ErrKeyReused
	}
	results := make([]Result, len(tasks))
	for i := range tasks {
		t := &tasks[i]
		results[i] = Result{Namespace: t.Namespace, Key: t.Key, Item: applied.Items[i], Replayed: applied.Replayed}
	}
	return results, nil
}
