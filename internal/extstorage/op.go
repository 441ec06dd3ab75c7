package extstorage

import (
	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

// OpKind is the kind of an operation in a write.
type OpKind uint8

// A merge patch or an increment is a Put with Revise set.
const (
	Put OpKind = iota
	Delete
	Check // only checks the precondition
)

// Op is an operation of a write on a record.
type Op struct {
	Kind         OpKind
	Namespace    Namespace
	Key          Key
	Precondition Precondition // checked against the record at write time

	// The following fields are for Put only.

	Value     canonjson.Value  // canonical JSON, never ""; not used with Revise
	Sum       canonjson.Number // result of an increment, for Item; set by Fill
	Metadata  canonjson.Value  // canonical JSON object, {} without metadata and never ""
	ExpiresAt Moment           // 0 means never

	// Keep keeps the metadata and the expiry time of a live record: Metadata and ExpiresAt then have no effect. They are
	// used if the record is missing or expired.
	Keep bool

	// Revise, if set, computes Value and Sum from the record at write time, after the precondition check. It may run
	// repeatedly, in another goroutine, and even after Apply returned because its context ended. It must not block. If it
	// returns an error, the operation fails.
	Revise Revise

	// Restored, if set, determines revision and times. It cannot be combined with Keep, Revise or an IdempotencyKey.
	Restored *Restored

	// Schema is the version that validated the value, or 0. If another version is active, the write fails with
	// ErrSchemaChanged.
	Schema SchemaVersion
}

// Restored contains the revision and times of a record written elsewhere.
type Restored struct {
	Revision             Revision
	CreatedAt, UpdatedAt Moment
}

// Header is a stored record without value and metadata.
type Header struct {
	Revision  Revision
	Seq       Seq
	CreatedAt Moment
	UpdatedAt Moment
	ExpiresAt Moment // 0 means never

	ValueBytes, MetadataBytes int64
}

// Bytes returns the size charged to quotas.
func (h *Header) Bytes() int64 { return h.ValueBytes + h.MetadataBytes }

// Live reports whether the record is visible; a nil header is not.
func (h *Header) Live(now Moment) bool { return h != nil && !h.ExpiresAt.Reached(now) }

// ErrSchemaChanged means that a put was validated by a schema that is no longer active.
var ErrSchemaChanged error = errcode.New(errcode.Conflict, "the active schema has changed: retry")

// ErrNoRecord means that a record is absent or expired.
var ErrNoRecord error = errcode.New(errcode.NotFound, "record not found")

// Effect is an operation's effect on a stored row. Nil means that the row does not exist.
type Effect struct {
	Item Item    // result for the client
	Next *Header // nil if the record no longer exists

	// Change, unless "", takes the install's next sequence number. Revision is the written or removed revision.
	Change   ChangeOp
	Revision Revision
}

// Delta is a change of counters.
type Delta struct{ Keys, Bytes int64 }

// DeltaOf returns the counter change from before to after, which are nil if the row does not exist.
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

// nextRevision returns the revision of the next write of a live record, or of a new one. After a restore of the
// database it skips the revisions that the lost server may have given to another content.
func nextRevision(live *Header, floor Seq) Revision {
	switch {
	case live == nil:
		return Revision(floor) + 1
	case live.Seq <= floor:
		return live.Revision + Revision(floor) + 1
	}
	return live.Revision + 1
}

// Decide returns the operation's effect, or *MismatchError or ErrSchemaChanged, which the store wraps in an *ItemError. It
// writes nothing. active is the namespace's active schema, which only puts compare. next is the number of the operation's
// change. floor is the install's last change number when the database was restored, 0 if it never was.
func (op *Op) Decide(row *Header, now Moment, active SchemaVersion, next, floor Seq) (Effect, error) {
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
		Revision: nextRevision(live, floor), Seq: next, CreatedAt: now, UpdatedAt: now, ExpiresAt: op.ExpiresAt,
		ValueBytes: int64(len(op.Value)), MetadataBytes: int64(len(op.Metadata)),
	}
	if live != nil {
		h.CreatedAt = live.CreatedAt
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

// Item is an operation's result, stored as JSON for requests with an idempotency key. A put returns the new record, a
// check the record that it found (zero for none), and a delete only Existed.
type Item struct {
	Revision  Revision `json:"revision,omitzero"`
	Seq       Seq      `json:"seq,omitzero"`
	Created   bool     `json:"created,omitzero"` // a put found no visible record
	Existed   bool     `json:"existed,omitzero"` // a delete removed a visible record
	CreatedAt Moment   `json:"createdAt,omitzero"`
	UpdatedAt Moment   `json:"updatedAt,omitzero"`
	ExpiresAt Moment   `json:"expiresAt,omitzero"`

	Sum canonjson.Number `json:"sum,omitzero"` // result of an increment; "" otherwise
}

// itemOf returns an item with the header's fields; zero for nil.
func itemOf(h *Header) Item {
	if h == nil {
		return Item{}
	}
	return Item{Revision: h.Revision, Seq: h.Seq, CreatedAt: h.CreatedAt, UpdatedAt: h.UpdatedAt, ExpiresAt: h.ExpiresAt}
}

// ItemError is the error of the operation at Index in a write.
type ItemError struct {
	Index int
	Err   error // of the operation; never nil
}

func (e *ItemError) Error() string { return e.Err.Error() }
func (e *ItemError) Unwrap() error { return e.Err }
