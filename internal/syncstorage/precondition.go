package syncstorage

import "holdfast/internal/errcode"

// Precondition is X-If-Modified-Since or X-If-Unmodified-Since; at most one of
// them is set. It is checked against the record for requests on a record, against
// the collection for requests on a collection (also with ?ids=), and against the
// user otherwise. The modified time of an absent or expired resource is 0.
type Precondition struct {
	ModifiedSince   Optional[Timestamp]
	UnmodifiedSince Optional[Timestamp]
}

// Check returns nil when a request may proceed on a resource modified at ts,
// and a *PreconditionError otherwise.
func (p Precondition) Check(ts Timestamp) error {
	switch {
	case p.UnmodifiedSince.Set && ts > p.UnmodifiedSince.Value:
		return &PreconditionError{Modified: ts}
	case p.ModifiedSince.Set && ts <= p.ModifiedSince.Value:
		return &PreconditionError{Modified: ts, NotModified: true}
	}
	return nil
}

// PreconditionError means that a precondition does not hold. The response must
// have Modified in X-Last-Modified.
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
