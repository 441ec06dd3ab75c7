// Package rows describes the tables of a service in the same way for all engines, so that
// rows can be copied from one engine to another and compared. It knows no service.
package rows

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/errcode"
)

// Kind is the type of a column. A value in Go is nil, an int64, a string or a []byte.
type Kind uint8

// The kinds, with their types in SQLite and in PostgreSQL.
const (
	Integer   Kind = iota // int64: INTEGER, and bigint, integer or smallint
	Text                  // string: TEXT, and text or varchar
	Bytes                 // []byte: BLOB, and bytea
	UUID                  // string in lower case: TEXT, and uuid
	JSON                  // string, canonical: TEXT, and jsonb
	RawJSON               // string: TEXT, and json
	Millis                // int64, milliseconds since 1970: INTEGER, and timestamptz
	MillisUTC             // int64, milliseconds since 1970: INTEGER, and timestamp in UTC
	Micros                // int64, microseconds since 1970: INTEGER, and timestamptz
	Map                   // string, an object of strings in canonical JSON: TEXT, and hstore
	Texts                 // string, an array in canonical JSON: TEXT, and text[]
	UUIDs                 // string, an array in canonical JSON: TEXT, and uuid[]
	Bool                  // int64, 0 or 1: INTEGER, and boolean
	Date                  // string, YYYY-MM-DD: TEXT, and date
	Real                  // string, see FormatReal: REAL, and real
)

var kinds = map[string]Kind{
	"integer": Integer, "text": Text, "bytes": Bytes, "uuid": UUID, "json": JSON, "rawjson": RawJSON,
	"millis": Millis, "millisutc": MillisUTC, "micros": Micros,
	"map": Map, "texts": Texts, "uuids": UUIDs, "bool": Bool, "date": Date, "real": Real,
}

// FormatReal returns the value of a column of kind Real: a number that PostgreSQL can store.
func FormatReal(x float64) string { return strconv.FormatFloat(float64(float32(x)), 'g', -1, 32) }

// Column is a column of a table.
type Column struct {
	Name string
	Kind Kind
}

// Columns reads a list such as "user_id integer, name text".
func Columns(list string) (all []Column) {
	for item := range strings.SplitSeq(list, ",") {
		name, kind, _ := strings.Cut(strings.TrimSpace(item), " ")
		k, ok := kinds[kind]
		if !ok {
			panic("rows: no kind of column: " + item)
		}
		all = append(all, Column{name, k})
	}
	return all
}

// Table is a table of a service. Columns that the engine computes are not listed.
type Table struct {
	Name    string
	Columns []Column // those of the key first, and of them those of the owner
	Key     int      // number of columns of the key
	Seeded  bool     // the migrations insert rows
	First   bool     // the first start of a server inserts a row
	Process bool     // a row belongs to a process of a server, and no request inserts it
	Numbers bool     // the database assigns a column, and no number twice
	Number  string   // the name of that column; "": the first one

	// Unindexed says that no index begins with the columns of the owner.
	Unindexed bool

	// Replace says that all rows of an owner are replaced when one has changed, because
	// another constraint than the key forbids to replace one, or the key is not unique.
	Replace bool

	// SQLite has an expression for each column that only SQLite has, in which {name} is the
	// value of another column.
	SQLite map[string]string

	// Postgres has an expression for each column that PostgreSQL reads with another meaning.
	Postgres map[string]string

	// PostgresName is the name in PostgreSQL, with a schema; "": Name.
	PostgresName string

	// PostgresFrom, if set, is a query with the columns, which PostgreSQL reads instead of
	// the table.
	PostgresFrom string

	// PostgresInsert, if set, is the statement by which PostgreSQL inserts a row, with the
	// columns as parameters. Such a table has Replace.
	PostgresInsert string

	// With, if set, returns the key of a row that changes with the one with this key.
	With func(key Row) Row

	// Parents are the tables that foreign keys refer to. Their keys begin the key of this table.
	Parents []string

	// Recount is the end of an UPDATE that counts the rows of other tables; "" if there is
	// nothing to count. It ends with a condition.
	Recount string

	// Spanner describes the table on Cloud Spanner; nil if it is not supported.
	Spanner *Spanner
}

// Names returns the names of the columns, separated by commas.
func (t *Table) Names() string { return names(t.Columns) }

// NumberName returns the name of the column that the database assigns.
func (t *Table) NumberName() string { return cmp.Or(t.Number, t.Columns[0].Name) }

// KeyNames returns the names of the columns of the key, separated by commas.
func (t *Table) KeyNames() string { return names(t.Columns[:t.Key]) }

func names(columns []Column) string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = c.Name
	}
	return strings.Join(all, ", ")
}

// Group is a number of tables with the same owners. Parents of foreign keys come first.
type Group struct {
	Owner  int // number of the first columns that name the owner; 0: there are no owners
	Tables []*Table
}

// Row has the values of the columns of a table, or of the first ones.
type Row []any

// Span selects rows by their owner: one owner, some owners (not on Spanner), or those after
// one and up to another. nil has no bound.
type Span struct {
	Only         Row
	Among        []Row
	After, Until Row
}

// All selects all rows.
var All Span

// Change is a key in the log of changes: the row of a table with this key was inserted,
// updated or deleted; or all rows whose keys begin with Key, if it has fewer columns.
type Change struct {
	Table string
	Key   Row
}

// LogLimit limits what is read from the log of changes.
type LogLimit struct {
	Keys    int // that differ
	Entries int
}

// Database reads and writes the tables of a service.
type Database interface {
	// View calls fn with one snapshot.
	View(ctx context.Context, fn func(View) error) error
	// Update calls fn with a transaction. fn may run twice and must be idempotent.
	Update(ctx context.Context, fn func(Update) error) error

	// Settle waits for transactions that were acknowledged and that a node, which has
	// crashed, does not show yet.
	Settle(ctx context.Context) error

	// Log makes every transaction from now on log its changes of the tables of a service,
	// until Unlog, in a new log. It keeps the state. The log ends by itself LogLease after the last KeepLog.
	Log(ctx context.Context, service string, groups []Group) error
	// KeepLog prolongs the log. It returns ErrLapsed if it has ended.
	KeepLog(ctx context.Context, service string) error
	// Unlog ends the log and deletes it.
	Unlog(ctx context.Context, service string, groups []Group) error

	// Slow refuses writes with ErrReadOnly for this part of each SlowPeriod, until SlowLease after
	// the last call, or not at all if it is 0. It has an effect while changes are logged, and none
	// on tables of processes. On Spanner it returns errors.ErrUnsupported.
	Slow(ctx context.Context, service string, refused time.Duration) error

	// Close makes a service read-only: until the end of a lease, or, if the lease is 0,
	// until Reopen. When it returns, no transaction is left that may write. holder names
	// who did it and may Close it again, to prolong it.
	Close(ctx context.Context, service, holder string, lease time.Duration, groups []Group) error
	// Prolong prolongs a lease, or makes it permanent if the lease is 0. It returns
	// ErrLapsed if the service may have been written since.
	Prolong(ctx context.Context, service, holder string, lease time.Duration) error
	// Reopen ends read-only.
	Reopen(ctx context.Context, service string, groups []Group) error
	// ReadOnly returns who made the service read-only, and until when; "" if it is not.
	// The time is zero if there is no end.
	ReadOnly(ctx context.Context, service string) (holder string, until time.Time, err error)
}

// View is a snapshot of a database.
type View interface {
	// Each calls fn for each row of a span in the order of the key, and owner by owner if
	// the span names some. fn must not keep it.
	Each(t *Table, owner int, span Span, fn func(Packed) error) error
	// Find calls fn for the rows with these keys, in any order. fn must not keep them.
	Find(t *Table, keys []Row, fn func(Packed) error) error
	// Count returns the number of rows of a table; at most most, if that is not 0.
	Count(t *Table, most int64) (int64, error)
	// Total returns a number of rows, or the sum of a column. On Spanner the error of a sum is errors.ErrUnsupported.
	Total(t Total) (int64, error)
	// NthOwner returns the owner of the n-th row after an owner; nil if there are fewer.
	NthOwner(t *Table, owner int, after Row, n int) (Row, error)
	// Last returns the last number that the database has assigned; see Table.Numbers.
	Last(t *Table) (int64, error)
	// Changes returns the keys of the oldest entries in the log of a service, each key once,
	// and these entries. On Citus the limits are for each node.
	Changes(service string, tables map[string]*Table, limit LogLimit) (changes []Change, entries []int64, err error)
	// Logged returns the number of entries in the log of a service.
	Logged(service string) (int64, error)
	// Duplicates returns entries of the log, at most limit, on Citus from each node. The log has
	// a newer entry of the same key for each.
	Duplicates(service string, limit int) (entries []int64, err error)
	// State returns what SetState has stored; "" if nothing.
	State(service string) (string, error)
}

// Total is a number of rows of a table as it is stored, or the sum of a column.
type Total struct {
	Table *Table
	Sum   string // the column; "": the rows are counted
	Where string // a condition in SQL, which all engines of the table understand; "": none
}

// Query returns the statement; from is the name of the table in the engine.
func (t Total) Query(from string) string {
	what, where := "count(*)", ""
	if t.Sum != "" {
		what = "coalesce(sum(" + t.Sum + "), 0)"
	}
	if t.Where != "" {
		where = " WHERE " + t.Where
	}
	return "SELECT " + what + " FROM " + from + where
}

// Update is a transaction.
type Update interface {
	// State returns what SetState has stored, and locks it until the end.
	State(service string) (string, error)
	// Delete deletes the rows of a span.
	Delete(t *Table, owner int, span Span) error
	// Insert inserts rows whose keys do not exist. It returns an error of the reader as it is.
	Insert(t *Table, all Reader) error
	// Put inserts rows, or updates those whose keys exist.
	Put(t *Table, all *Batch) error
	// Remove deletes the rows with these keys.
	Remove(t *Table, keys []Row) error
	// Recount corrects the counters of Table.Recount.
	Recount(t *Table, owner int, span Span) error
	// SetLast sets the last number that was assigned.
	SetLast(t *Table, n int64) error
	// Forget deletes entries from the log.
	Forget(entries []int64) error
	// SetState stores a text for a service.
	SetState(service, state string) error
}

// RawView is a View of an engine that passes rows to a RawUpdate of the same engine without
// looking at their values.
type RawView interface {
	View

	// Dump writes the rows of a span in the order of the key, in a format of the engine, and
	// returns how many.
	Dump(w io.Writer, t *Table, owner int, span Span) (int64, error)
	// Sum returns a digest of the rows of a span, which only this engine can compute.
	Sum(t *Table, owner int, span Span) (Digest, error)
}

// RawUpdate is an Update that reads what a RawView of the same engine has written.
type RawUpdate interface {
	Update

	// Load inserts rows whose keys do not exist. It returns an error of the reader as it is.
	Load(r io.Reader, t *Table) error
}

// IsRaw reports whether a RawView can write the rows of the table.
func (t *Table) IsRaw() bool { return t.PostgresFrom == "" && t.PostgresInsert == "" }

// ErrReadOnly means that the service is read-only: see Close.
var ErrReadOnly = errcode.New(errcode.Unavailable, "the service is read-only: retry later")

// ErrLapsed means that a lease has ended.
var ErrLapsed = errors.New("the lease of the copy has ended")

// Forever is the end of a lease without an end.
var Forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// SlowPeriod and SlowLease are times of Database.Slow. A transaction of PostgreSQL is refused if it
// begins in the part, so long ones are not refused more often than short ones.
const (
	SlowPeriod = 4 * time.Second
	SlowLease  = 30 * time.Second
)

// SlowOf is the name in copy_state of the part of writes of a service that are refused, in
// milliseconds. Triggers read it.
func SlowOf(service string) string { return "slow writes of " + service }

// A log ends, too, when this many entries were added after the last KeepLog, so that the log of a copy
// that nobody continues does not fill the disk. KeepLog returns ErrLapsed LogMargin entries before, because
// writers of PostgreSQL may add some while it commits. Spanner has no such limit.
const (
	LogAhead  = 5_000_000
	LogMargin = 100_000
)

// EndOf is the name in copy_state of the number of the entry at which a service's log ends.
func EndOf(service string) string { return "end of the log of " + service }

// LogLease is how long changes are logged after the last KeepLog.
const LogLease = 24 * time.Hour

// Where returns the condition of a span, and its arguments. parameter returns the text of
// the i-th parameter, from 1 on, for a column.
func (t *Table) Where(owner int, span Span, parameter func(i int, c Column) string) (sql string, args []any) {
	list := func(values Row) string {
		all := make([]string, owner)
		for i := range all {
			args = append(args, values[i])
			all[i] = parameter(len(args), t.Columns[i])
		}
		return "(" + strings.Join(all, ", ") + ")"
	}
	columns := "(" + names(t.Columns[:owner]) + ")"
	sql = "true"
	if owner == 0 {
		return sql, nil
	}
	if span.Only != nil {
		sql += " AND " + columns + " = " + list(span.Only)
	}
	if len(span.Among) > 0 {
		alternatives := make([]string, len(span.Among))
		for i, one := range span.Among {
			alternatives[i] = columns + " = " + list(one)
		}
		sql += " AND (" + strings.Join(alternatives, " OR ") + ")"
	}
	if span.After != nil {
		sql += " AND " + columns + " > " + list(span.After)
	}
	if span.Until != nil {
		sql += " AND " + columns + " <= " + list(span.Until)
	}
	return sql, args
}

// WhereKey returns the condition of a key.
func (t *Table) WhereKey(parameter func(i int, c Column) string) string {
	all := make([]string, t.Key)
	for i, c := range t.Columns[:t.Key] {
		all[i] = c.Name + " = " + parameter(i+1, c)
	}
	return strings.Join(all, " AND ")
}

// OnConflict returns the clause that updates all columns that are not in the key, but a number
// that the database assigned: it never changes.
func (t *Table) OnConflict() string {
	var all []string
	for _, c := range t.Columns[t.Key:] {
		if t.Numbers && c.Name == t.NumberName() {
			continue
		}
		all = append(all, c.Name+" = excluded."+c.Name)
	}
	if len(all) == 0 {
		return "ON CONFLICT (" + t.KeyNames() + ") DO NOTHING"
	}
	return "ON CONFLICT (" + t.KeyNames() + ") DO UPDATE SET " + strings.Join(all, ", ")
}

// Parameters returns a list of parameters for all columns.
func (t *Table) Parameters(parameter func(i int, c Column) string) string {
	all := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		all[i] = parameter(i+1, c)
	}
	return strings.Join(all, ", ")
}
