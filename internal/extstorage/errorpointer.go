package extstorage

import (
	"holdfast/internal/canonjson"
)

// inRequest moves an error's pointer from the value to the client's request, e.g. from /a to /value/a in a put.
func (t *Task) inRequest(err error) error {
	switch e := err.(type) { //nolint:errorlint // wrapped errors have their pointer already
	case *SchemaError:
		return e.Moved(t.placeOf)
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

// placeOf returns a schema failure's place in the request. A patch may contain the member that the value lacks, as a null. An
// increment's number is not at fault where the schema allows no value at all.
func (t *Task) placeOf(f *SchemaFailure) string {
	switch {
	case t.Kind == PatchTask && f.Missing.Set:
		return t.pointerInRequest(f.Location + canonjson.Pointer{f.Missing.Value}.String())
	case t.Kind == IncrementTask && f.Excludes():
		return "/pointer"
	}
	return t.pointerInRequest(f.Location)
}

// pointerInRequest returns the place in the request of a location in the value. The request contains it:
//
//   - in a put, it is the same place below /value;
//   - in a patch, the longest part of the location that the patch contains;
//   - in an increment, /by for the number and /pointer for everything else.
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
