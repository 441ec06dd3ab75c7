package rows

import "context"

// Spanner describes a table on Cloud Spanner. Two texts name a row's owner instead of a number.
type Spanner struct {
	// Keys are the two columns that replace the owner number; empty if the table has no owners.
	Keys []string

	// From is a query with Keys and the table's columns, which is read instead of the table.
	From string

	// Lacks lists columns that From computes and that are not written.
	Lacks []string

	// Write, if set, converts a row to Spanner's stored values.
	Write func(Row)

	// Elsewhere, if set, converts a Spanner row to other engines' stored values.
	Elsewhere func(Row)

	// Compare, if set, reduces any engine's row to the values that both engines keep. It returns false for rows that
	// Spanner may expire. now is in Unix milliseconds.
	Compare func(r Row, now int64) bool
}

// Common returns Spanner.Compare for engines that name owners by texts, or nil if rows need no change.
func (t *Table) Common() func(r Row, now int64) bool {
	if t.Spanner == nil {
		return nil
	}
	return t.Spanner.Compare
}

// Elsewhere returns Spanner.Elsewhere, or nil.
func (t *Table) Elsewhere() func(Row) {
	if t.Spanner == nil {
		return nil
	}
	return t.Spanner.Elsewhere
}

// Owner is an owner's number with its texts on Spanner.
type Owner struct {
	Number int64
	Keys   [2]string

	// Current is the number that owns these texts now. It equals Number, unless the owner was replaced.
	Current int64
}

// Owners finds the owners of rows on Spanner, in the tokenserver's database.
type Owners interface {
	// After returns up to n owners after a number, in order; fewer than n means the end.
	After(ctx context.Context, number int64, n int) ([]Owner, error)
	// Find returns the existing owners with these numbers, in any order.
	Find(ctx context.Context, numbers []int64) ([]Owner, error)
}
