package syncstorage

import "holdfast/internal/errcode"

// Precondition is X-If-Modified-Since or X-If-Unmodified-Since. It applies to the addressed record, collection (also
// with ?ids=), or user. The modified time of absent and expired resources is 0.
type Precondition struct {
	ModifiedSince   Optional[Timestamp]
	UnmodifiedSince Optional[Timestamp]
}

// Check returns a *PreconditionError unless the precondition holds for a resource modified at ts.
func (p Precondition) Check(ts Timestamp) error {
	switch {
	case p.UnmodifiedSince.Set && ts > p.UnmodifiedSince.Value:
		return &PreconditionError{Modified: ts}
	case p.ModifiedSince.Set && ts <= p.ModifiedSince.Value:
		return &PreconditionError{Modified: ts, NotModified: true}
	}
	return nil
}

// PreconditionError means that a precondition failed. The response sends Modified as X-Last-Modified.
type PreconditionError struct {
	Modified    Timestamp
	NotModified bool // status 304 rather than 412
}

func (e *PreconditionError) Error() string {
	if e.NotModified {
		return "not modified since " + e.Modified.String()
	}
	return "modified at " + e.Modified.String()
}

func (e *PreconditionError) ErrorCode() errcode.Code { return errcode.Precondition }
