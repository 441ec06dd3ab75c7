package extstorage

import (
	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

// OpKind is the kind of an operation.
type OpKind uint8

// Kinds of operations. A merge patch or an increment is a Put with Revise.
const (
	Put OpKind = iota
	Delete
	Check // checks its precondition and changes nothing
)

// Op is one operation on one record.
type Op struct {
	Kind         OpKind
	Namespace    Namespace
	Key          Key
	Precondition Precondition

	// The following fields are for Put only.

	Value     canonjson.Value
	Sum       canonjson.Number // of an increment, for the response
	Metadata  canonjson.Value  // an object
	ExpiresAt Moment           // 0: never
	Keep      bool             // an existing record keeps its metadata and time to live

	// Revise, if set, computes Value and Sum from the record at the time of the
	// write. It is called after the precondition was checked, possibly more than
	// once, and must not block. Its error is the error of the operation.
	Revise Revise

	// Restored, if not nil, sets the revision and times of the record instead of
	// the next revision and the time of the write. It cannot be combined with Keep,
	// Revise, or an IdempotencyKey of the write.
	Restored *Restored

	// Schema is the version that the value was validated by, or 0 if none was
	// active. If another version is active in the transaction of the write, the
	// write fails with ErrSchemaChanged.
	Schema SchemaVersion
}

// Restored are the revision and times of a record that was written elsewhere.
type Restored struct {
	Revision             Revision
	CreatedAt, UpdatedAt Moment
}

// Header is a stored record without its value and metadata.
type Header struct {
	Revision  Revision
	Seq       Seq // of the change that wrote the record
	CreatedAt Moment
	UpdatedAt Moment
	ExpiresAt Moment // 0: never

	ValueBytes, MetadataBytes int64
}

// Bytes returns the size that counts toward quotas.
func (h *Header) Bytes() int64 { return h.ValueBytes + h.MetadataBytes }

// Live reports whether the record exists and has not expired.
func (h *Header) Live(now Moment) bool { return h != nil && !h.ExpiresAt.Reached(now) }

// ErrSchemaChanged means that a put was validated by a schema that is no longer
// active: read the schema again and retry.
var ErrSchemaChanged error = errcode.New(errcode.Conflict, "the active schema has changed: retry")

// ErrNoRecord means that a record is absent or expired.
var ErrNoRecord error = errcode.New(errcode.NotFound, "record not found")

// Effect is the effect of an operation on a stored row; nil if there is none.
type Effect struct {
	Item Item
	Next *Header // the row after it; nil if the record no longer exists

	// Change gets the next sequence number of the install; "" means no change.
	// Revision is that of the record written or removed.
	Change   ChangeOp
	Revision Revision
}

// Delta is a change of the counters.
type Delta struct{ Keys, Bytes int64 }

// DeltaOf returns how the counters at a time change when a row is replaced by
// another; nil means no row.
func DeltaOf(before, after *Header, countedAt Moment) (d Delta) {
	if before.Live(countedAt) {
		d = Delta{Keys: -1, Bytes: -before.Bytes()}
	}
	if after.Live(countedAt) {
		d.Keys++
		d.Bytes += after.Bytes()
	}
	return d
}

// Decide returns the effect of an operation on the stored row. active is the
// active schema of the namespace, next the number for a change. An expired row
// counts as absent: a put replaces it, and a delete removes it.
//
// Errors: *MismatchError, ErrSchemaChanged.
func (op *Op) Decide(row *Header, now Moment, active SchemaVersion, next Seq) (Effect, error) {
	live := row
	if !row.Live(now) {
		live = nil
	}
	at := itemOf(live)
	check := op.Precondition.Check
	if op.Kind == Delete {
		check = op.Precondition.CheckDelete
	}
	if err := check(at.Revision, at.Seq); err != nil {
		return Effect{}, err
	}
	switch op.Kind {
	case Check:
		return Effect{Item: at, Next: row}, nil
	case Delete:
		e := Effect{Item: Item{Existed: live != nil}}
		if row != nil {
			e.Change, e.Revision = ChangeDelete, row.Revision
		}
		if live == nil && row != nil {
			e.Change = ChangeExpire
		}
		return e, nil
	}
	if op.Schema != active {
		return Effect{}, ErrSchemaChanged
	}
	h := Header{
		Revision: 1, Seq: next, CreatedAt: now, UpdatedAt: now, ExpiresAt: op.ExpiresAt,
		ValueBytes: int64(len(op.Value)), MetadataBytes: int64(len(op.Metadata)),
	}
	if live != nil {
		h.Revision, h.CreatedAt = live.Revision+1, live.CreatedAt
		if op.Keep {
			h.ExpiresAt, h.MetadataBytes = live.ExpiresAt, live.MetadataBytes
		}
	}
	if r := op.Restored; r != nil {
		h.Revision, h.CreatedAt, h.UpdatedAt = r.Revision, r.CreatedAt, r.UpdatedAt
	}
	e := Effect{Item: itemOf(&h), Next: &h, Change: ChangePut, Revision: h.Revision}
	e.Item.Created, e.Item.Sum = live == nil, op.Sum
	return e, nil
}

// Item is the result of one operation. Backends store it as JSON for requests with an
// idempotency key.
type Item struct {
	Revision  Revision `json:"revision,omitzero"` // 0: there is no record
	Seq       Seq      `json:"seq,omitzero"`      // sequence number for the ETag
	Created   bool     `json:"created,omitzero"`  // the put created the record
	Existed   bool     `json:"existed,omitzero"`  // the delete found a record
	CreatedAt Moment   `json:"createdAt,omitzero"`
	UpdatedAt Moment   `json:"updatedAt,omitzero"`
	ExpiresAt Moment   `json:"expiresAt,omitzero"`

	Sum canonjson.Number `json:"sum,omitzero"` // of an increment, as a string
}

func itemOf(h *Header) Item {
	if h == nil {
		return Item{}
	}
	return Item{Revision: h.Revision, Seq: h.Seq, CreatedAt: h.CreatedAt, UpdatedAt: h.UpdatedAt, ExpiresAt: h.ExpiresAt}
}

// ItemError is the error of one operation of a write.
type ItemError struct {
	Index int // index of the operation
	Err   error
}

func (e *ItemError) Error() string { return e.Err.Error() }
func (e *ItemError) Unwrap() error { return e.Err }
