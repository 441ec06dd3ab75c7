package syncstorage

import (
	"iter"

	"holdfast/internal/errcode"
)

// Exported is an element of an export.
type Exported struct {
	Collection CollectionStamp // also set for each record
	BSO        *BSO            // nil for the collection itself; valid until the next iteration
}

// ExportSequence turns a function into a sequence that ends with its error. Backends use it.
func ExportSequence(run func(yield func(Exported) bool) error) iter.Seq2[Exported, error] {
	return func(yield func(Exported, error) bool) {
		if err := run(func(e Exported) bool { return yield(e, nil) }); err != nil {
			yield(Exported{}, err)
		}
	}
}

// Restore is a step of an import that preserves stamps.
type Restore struct {
	Modified Timestamp // the collection's stamp
	Records  []BSO     // with their stamps; none later than Modified
}

// Restored is the result of a step.
type Restored struct {
	Written
	User  Timestamp // the user's stamp afterwards
	Newer int       // skipped because the stamp here is later
}

// MaxStampAhead limits how far a restored stamp may be ahead of the clock, in milliseconds, because the user's next
// stamp is later.
const MaxStampAhead = 24 * 3600 * 1000

// Check returns errcode.Invalid for stamps or records that no server could have.
func (r *Restore) Check(now Timestamp) error {
	if err := checkStamp(r.Modified, now); err != nil {
		return err
	}
	for i := range r.Records {
		if err := r.Records[i].CheckExported(now); err != nil {
			return err
		}
		if r.Records[i].Modified > r.Modified {
			return errcode.New(errcode.Invalid, "modified is later than the collection's")
		}
	}
	return nil
}

// CheckExported validates a record from a file.
func (b *BSO) CheckExported(now Timestamp) error {
	switch {
	case !ValidID(b.ID):
		return errcode.Newf(errcode.Invalid, "id must be 1 to %d printable ASCII characters", MaxIDLength)
	case b.SortIndex.Set && (b.SortIndex.Value > MaxSortIndex || b.SortIndex.Value < -MaxSortIndex):
		return errcode.Newf(errcode.Invalid, "sortindex must be from -%d to %d", MaxSortIndex, MaxSortIndex)
	case b.Expiry < 0 || b.Expiry > MaxTimestamp:
		return errcode.New(errcode.Invalid, "expiry is not a time that this server can store")
	}
	return checkStamp(b.Modified, now)
}

// checkStamp requires a stamp in the past, or at most MaxStampAhead in the future.
func checkStamp(ts, now Timestamp) error {
	switch {
	case ts <= 0 || ts%Tick != 0:
		return errcode.Newf(errcode.Invalid, "modified must be milliseconds since 1970 that end with 0, as in an export")
	case ts > now+MaxStampAhead:
		return errcode.New(errcode.Invalid, "modified is more than a day ahead of this server's clock")
	}
	return nil
}

// Keeps reports whether a stored record survives restoring b. stored may be nil.
func (b *BSO) Keeps(stored *BSO, horizon Timestamp) bool {
	return stored != nil && stored.Live(horizon) && stored.Modified > b.Modified
}
