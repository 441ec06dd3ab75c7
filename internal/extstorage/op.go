package extstorage

import (
	"holdfast/internal/canonjson"
)

import "holdfast/internal/fault"

// OpKind is the kind of an operation.
type OpKind uint8

// The operations of a write. A merge patch or an increment is a Put with Revise.
const (
	Put OpKind = iota
	Delete
	Check // holds its precondition against the record and changes nothing
)

// Op is one operation on one record.
type Op struct {
	Kind         OpKind
	Namespace    Namespace
	Key          Key
	Precondition Precondition

	// The rest is for Put only.

	Value     canonjson.Value
	Sum       canonjson.Number // of an increment, for the answer
	Metadata  canonjson.Value  // an object
	ExpiresAt Moment           // 0: never
	Keep      bool             // metadata and time to live stay as they are, in a record that is there

	// Revise, when set, makes Value and Sum from the record as the write finds it. It
	// is called when the precondition has held, once or more often, and waits for
	// nothing; its error is that of the operation.
	Revise Revise

	// Restored, when not nil, is what the record has instead of the next revision and
	// the moments of the write. It is not for Keep and Revise, and not for writes with
	// an IdempotencyKey.
	Restored *Restored

	// Schema is the version by which the value was validated, 0 when none was
	// active. When that is not what is active in the write's own transaction,
	// the write fails with ErrSchemaChanged.
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
	Seq       Seq // of the change that wrote it
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
var ErrSchemaChanged error = fault.New(fault.Conflict, "the active schema has changed: retry")

// ErrNoRecord means that a record is absent or expired.
var ErrNoRecord error = fault.New(fault.NotFound, "record not found")

// Effect is what an operation does to a stored row, nil when there is none.
type Effect struct {
	Item Item
	Next *Header // the row after it; nil if the record no longer exists

	// Change takes the next number of the install's sequence; "": there is
	// none. Revision is that of the record written or taken away.
	Change   ChangeOp
	Revision Revision
}

// Delta is a change of the counters.
type Delta struct{ Keys, Bytes int64 }

// DeltaOf is what the counters of a moment change by when a row becomes another
// one; nil is no row.
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

// Decide returns what an operation does to what is stored. active is the namespace's active
// schema, next the number of the change if there will be one. A row that has
// expired counts as absent; a put takes its place, and a delete removes it.
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
	Seq       Seq      `json:"seq,omitzero"`      // what the ETag is made of
	Created   bool     `json:"created,omitzero"`  // the put made the record
	Existed   bool     `json:"existed,omitzero"`  // the delete found it
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
	Index int // of the operation
	Err   error
}

func (e *ItemError) Error() string { return e.Err.Error() }
func (e *ItemError) Unwrap() error { return e.Err }
