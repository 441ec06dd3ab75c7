package extstorage

import (
	"holdfast/internal/canonjson"
)

// inRequest moves an error's pointer from the value to the client's request, e.g. from /a to /value/a in a put.
func (t *Task) inRequest(err error) error {
	switch e := err.(type) { //nolint:errorlint // wrapped errors have their pointer already
	case *SchemaError:
		return e.Moved(func(f *SchemaFailure) string { return t.pointerInRequest(f.Location) })
	case *ValidationError:
		if e != errNotActive {
			return &ValidationError{Pointer: t.pointerInRequest(e.Pointer), Reason: e.Reason}
		}
	case *LimitError:
		moved := *e
		moved.Pointer = t.pointerInRequest(e.Pointer)
		return &moved
	}
	return err
}

// pointerInRequest returns the pointer into the request that caused the failure at location in the value. For a patch it is the
// longest part of the location that the patch contains.
func (t *Task) pointerInRequest(location string) string {
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
