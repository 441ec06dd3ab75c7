package syncstorage

import "holdfast/internal/errcode"

// Precondition is X-If-Modified-Since or X-If-Unmodified-Since. It applies to the addressed record, or collection
// (also with ?ids=), or else the user. Absent and expired resources have modified time 0.
type Precondition struct {
	ModifiedSince   Optional[Timestamp]
	UnmodifiedSince Optional[Timestamp]
}

// Check returns a *PreconditionError unless a request may proceed on a resource modified at ts.
func (p Precondition) Check(ts Timestamp) error {
	switch {
	case p.UnmodifiedSince.Set && ts > p.UnmodifiedSince.Value:
		return &PreconditionError{Modified: ts}
	case p.ModifiedSince.Set && ts <= p.ModifiedSince.Value:
		return &PreconditionError{Modified: ts, NotModified: true}
	}
	return nil
}

// PreconditionError means that a precondition failed. The response must send Modified as X-Last-Modified.
type PreconditionError struct {
	Modified    Timestamp // of the addressed resource
	NotModified bool      // 304 rather than 412
}

func (e *PreconditionError) Error() string {
	if e.NotModified {
		return "not modified since " + e.Modified.String()
	}
	return "modified at " + e.Modified.String()
}

// ErrorCode implements errcode.Coder.
func (e *PreconditionError) ErrorCode() errcode.Code { return errcode.Precondition }
