package rows

import "context"

// Spanner describes how Cloud Spanner stores a table. It names the owner of a row by two
// texts instead of a number, the first column.
type Spanner struct {
	// Keys are the two columns instead of the number of the owner; empty if the table has
	// no owners.
	Keys []string

	// From, if set, is a query with the columns of Keys and of the table, to read from
	// instead of the table.
	From string

	// Lacks are columns that are only computed by From, not written.
	Lacks []string

	// Write, if set, changes the values of a row to those that Spanner stores.
	Write func(Row)

	// Elsewhere, if set, changes the values of a row of Spanner to those that another
	// engine stores.
	Elsewhere func(Row)

	// Compare, if set, changes the values of a row of any engine to those that both
	// engines keep. It returns false for a row that Spanner may delete by itself. now is
	// in milliseconds since 1970.
	Compare func(r Row, now int64) bool
}

// Common returns Spanner.Compare, for engines that name owners by texts; nil if the rows are compared as they are.
func (t *Table) Common() func(r Row, now int64) bool {
	if t.Spanner == nil {
		return nil
	}
	return t.Spanner.Compare
}

// Elsewhere returns Spanner.Elsewhere, for engines that name owners by texts; nil if the rows are the same elsewhere.
func (t *Table) Elsewhere() func(Row) {
	if t.Spanner == nil {
		return nil
	}
	return t.Spanner.Elsewhere
}

// Owner is an owner with a number and the texts that name it on Spanner.
type Owner struct {
	Number int64
	Keys   [2]string

	// Current is the number of the owner who has these texts now: Number, unless another
	// has replaced it.
	Current int64
}

// Owners knows the owners of a service.
type Owners interface {
	// After returns the next owners after a number in their order. If there are fewer
	// than n, they are the last ones.
	After(ctx context.Context, number int64, n int) ([]Owner, error)
	// Find returns the owners with these numbers that exist, in any order.
	Find(ctx context.Context, numbers []int64) ([]Owner, error)
}
