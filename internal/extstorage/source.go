package extstorage

import (
	"holdfast/internal/canonjson"
)

// inRequest puts what is wrong with the value of a task to the place in the request
// that has made it so. Pointers of other errors are in the request already.
func (t *Task) inRequest(err error) error {
	switch e := err.(type) { //nolint:errorlint // what is wrapped has its place already
	case *SchemaError:
		return e.moved(func(f *SchemaFailure) string { return t.source(f.Location) })
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

// source is the place in the request that a place in the value of a task comes
// from. What a patch does not touch comes from the part of the patch that is the
// nearest around it. Of an increment it is by for the number, and pointer for
// everything else, which was as it is or was made on the way to the number.
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
