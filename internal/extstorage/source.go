package extstorage

import (
	"holdfast/internal/canonjson"
)

// inRequest converts the pointers of an error about a task's value to pointers
// into the request. Pointers of other errors are into the request already.
func (t *Task) inRequest(err error) error {
	switch e := err.(type) { //nolint:errorlint // wrapped errors have their pointer already
	case *SchemaError:
		return e.Moved(func(f *SchemaFailure) string { return t.source(f.Location) })
	case *ValidationError:
		if e != errNotActive {
			return &ValidationError{Pointer: t.source(e.Pointer), Reason: e.Reason}
		}
	case *LimitError:
		moved := *e
		moved.Pointer = t.source(e.Pointer)
		return &moved
	}
	return err
}

// source returns the location in the request that a location in the task's value
// comes from. For a part that a patch does not touch, it is the nearest enclosing
// part of the patch. For an increment it is by for the number, and pointer for
// everything else, which existed before or was created on the path to the number.
func (t *Task) source(location string) string {
	switch t.Kind {
	case PutTask:
		return "/value" + location
	case IncrementTask:
		if location == t.Increment.Pointer.String() {
			return "/by"
		}
		return "/pointer"
	}
	way, err := canonjson.ParsePointer(location)
	if err != nil {
		return ""
	}
	for n := len(way); n > 0; n-- {
		if _, found := t.Value.Lookup(way[:n]); found {
			return way[:n].String()
		}
	}
	return ""
}
