// Package rows describes a service's tables for all engines, so that rows can be copied between engines and compared.
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

// Kind is a column type. Go values are nil, int64, string or []byte.
type Kind uint8

// Kinds with their Go, SQLite and PostgreSQL types.
const (
	Integer   Kind = iota // int64: INTEGER, and bigint, integer or smallint
	Text                  // string: TEXT, and text or varchar
	Bytes                 // []byte: BLOB, and bytea
	UUID                  // lower-case string: TEXT, and uuid
	JSON                  // string, canonical: TEXT, and jsonb
	RawJSON               // string: TEXT, and json
	Millis                // int64, Unix milliseconds: INTEGER, and timestamptz
	MillisUTC             // int64, Unix milliseconds: INTEGER, and timestamp in UTC
	Micros                // int64, Unix microseconds: INTEGER, and timestamptz
	Map                   // string, object of strings in canonical JSON: TEXT, and hstore
	Texts                 // string, canonical JSON array: TEXT, and text[]
	UUIDs                 // string, canonical JSON array: TEXT, and uuid[]
	Bool                  // int64, 0 or 1: INTEGER, and boolean
	Date                  // string, YYYY-MM-DD: TEXT, and date
	Real                  // string, see FormatReal: REAL, and real
)

var kinds = map[string]Kind{
	"integer": Integer, "text": Text, "bytes": Bytes, "uuid": UUID, "json": JSON, "rawjson": RawJSON,
	"millis": Millis, "millisutc": MillisUTC, "micros": Micros,
	"map": Map, "texts": Texts, "uuids": UUIDs, "bool": Bool, "date": Date, "real": Real,
}

// FormatReal returns a Real value, which PostgreSQL can store.
func FormatReal(x float64) string { return strconv.FormatFloat(float64(float32(x)), 'g', -1, 32) }

type Column struct {
	Name string
	Kind Kind
}

// Columns parses a list such as "user_id integer, name text".
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

// Table is a service's table without computed columns.
type Table struct {
	Name    string
	Columns []Column // key first, beginning with the owner
	Key     int      // number of columns in the primary key, which come first
	Seeded  bool     // migrations insert rows into the table
	First   bool     // the first server start inserts a row into the table
	Process bool     // rows belong to server processes; no request inserts them
	Numbers bool     // the database assigns a column, and never reuses a number
	Number  string   // that column; "" means the first

	// Unindexed means that no index begins with the owner columns.
	Unindexed bool

	// Replace replaces all of an owner's rows when a row changes, because another constraint forbids replacing a
	// single row, or the key is not unique.
	Replace bool

	// SQLite contains expressions for SQLite-only columns; {name} is another column's value.
	SQLite map[string]string

	// Postgres contains expressions for columns that PostgreSQL reads with another meaning.
	Postgres map[string]string

	// PostgresName is the name with a schema; "" means Name.
	PostgresName string

	// PostgresFrom is a query that PostgreSQL reads instead of the table.
	PostgresFrom string

	// PostgresInsert is PostgreSQL's insert statement, with the columns as parameters. It requires Replace.
	PostgresInsert string

	// With, if set, returns the key of a row that changes together with key's row.
	With func(key Row) Row

	// Parents lists the tables that foreign keys refer to. Their keys are prefixes of this table's key.
	Parents []string

	// Recount is an UPDATE from SET on, with a condition, that recounts other tables' rows; "" if nothing is counted.
	Recount string

	// Spanner describes the table on Cloud Spanner; nil if it is unsupported.
	Spanner *Spanner
}

// Names returns all columns, separated by commas, for SQL.
func (t *Table) Names() string { return names(t.Columns) }

// NumberName returns the column that the database assigns; see Numbers.
func (t *Table) NumberName() string { return cmp.Or(t.Number, t.Columns[0].Name) }

// KeyNames returns the key's columns, separated by commas, for SQL.
func (t *Table) KeyNames() string { return names(t.Columns[:t.Key]) }

func names(columns []Column) string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = c.Name
	}
	return strings.Join(all, ", ")
}

// Group lists tables with the same owners, parents first.
type Group struct {
	Owner  int      // number of leading owner columns; 0 if there are no owners
	Tables []*Table // parents first
}

// Row contains the values of all columns or of the first columns.
type Row []any

// Span selects an owner, some owners (not on Spanner), or a range of owners without its start. A nil bound means that
// the range is unbounded.
type Span struct {
	Only  Row
	Among []Row
	After Row // exclusive
	Until Row // inclusive
}

var All Span // selects all rows

// Change is a logged key, whose row was inserted, updated or deleted. A Key with fewer columns covers all rows with
// that prefix.
type Change struct {
	Table string
	Key   Row // all columns of the key, or a prefix
}

// LogLimit limits how much View.Changes returns.
type LogLimit struct {
	Keys    int // returned keys
	Entries int // read entries
}

// Database is an engine's interface for copies, imports and read-only mode. SQLite, PostgreSQL and Spanner implement
// it. It is safe for concurrent use, but a View or an Update is not, and is valid only until fn returned.
type Database interface {
	// View passes fn a snapshot, in which several calls see the same rows.
	View(ctx context.Context, fn func(View) error) error
	// Update passes fn a transaction. fn may run twice and must be idempotent.
	Update(ctx context.Context, fn func(Update) error) error

	// Settle waits for acknowledged transactions that a crashed node hides.
	Settle(ctx context.Context) error

	// Log starts a new log of changes and keeps the state. The log ends with Unlog, or LogLease after the last
	// KeepLog.
	Log(ctx context.Context, service string, groups []Group) error
	// KeepLog prolongs the log, or returns ErrLapsed if it has ended.
	KeepLog(ctx context.Context, service string) error
	// Unlog ends the log and deletes its entries.
	Unlog(ctx context.Context, service string, groups []Group) error

	// Slow refuses writes with ErrReadOnly for this part of each SlowPeriod until SlowLease after the last call; 0
	// allows all writes again. It requires a log, and exempts process tables. Spanner returns errors.ErrUnsupported.
	Slow(ctx context.Context, service string, refused time.Duration) error

	// Close makes a service read-only until the lease ends, or until Reopen if lease is 0, and waits for transactions
	// that may write. The same holder may call Close again to extend the lease, which keeps Hold.Since.
	Close(ctx context.Context, service, holder string, lease time.Duration, groups []Group) error
	// Prolong prolongs a lease; 0 makes it permanent. It returns ErrLapsed if writes may have occurred since.
	Prolong(ctx context.Context, service, holder string, lease time.Duration) error
	// Reopen allows writes again, even if another process holds the lease.
	Reopen(ctx context.Context, service string, groups []Group) error
	// ReadOnly returns who made a service read-only.
	ReadOnly(ctx context.Context, service string) (Hold, error)
}

// Hold says who made a service read-only. The zero value means that it accepts writes.
type Hold struct {
	Holder string
	Since  time.Time // by the database's clock; zero if a server of an earlier release made it read-only
	Until  time.Time // end of the lease; zero: it does not end by itself
}

// View is a snapshot. owner is Group.Owner: how many leading columns name a row's owner.
type View interface {
	// Each calls fn for a span's rows in key order; if the span lists owners, for one owner after the other. fn must
	// not keep the row.
	Each(t *Table, owner int, span Span, fn func(Packed) error) error
	// Find calls fn for the rows with these keys, in any order. fn must not keep the row.
	Find(t *Table, keys []Row, fn func(Packed) error) error
	// Count stops at limit rows unless limit is 0.
	Count(t *Table, limit int64) (int64, error)
	// Total returns a row count or column sum. Spanner returns errors.ErrUnsupported for sums.
	Total(t Total) (int64, error)
	// NthOwner returns the owner of the n-th row after an owner, or nil.
	NthOwner(t *Table, owner int, after Row, n int) (Row, error)
	// Last returns the last assigned number; see Table.Numbers.
	Last(t *Table) (int64, error)
	// Changes returns the oldest log entries and their keys, each once.
	Changes(service string, tables map[string]*Table, limit LogLimit) (changes []Change, entries []int64, err error)
	// Logged returns the number of log entries.
	Logged(service string) (int64, error)
	// Duplicates returns up to limit entries (on Citus, per node) that have a newer entry with the same key.
	Duplicates(service string, limit int) (entries []int64, err error)
	// State returns the text stored by SetState, or "".
	State(service string) (string, error)
}

type Total struct {
	Table *Table
	Sum   string // column; "" to count rows
	Where string // SQL condition valid on the table's engines
}

// Query returns the SELECT; from is the table as the engine names it.
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

// Update is a transaction that writes.
type Update interface {
	// State returns the text stored by SetState, and locks it for the transaction.
	State(service string) (string, error)
	// Delete deletes a span's rows.
	Delete(t *Table, owner int, span Span) error
	// Insert inserts rows with new keys. It returns the reader's error unchanged.
	Insert(t *Table, all Reader) error
	// Put inserts rows, or replaces those with the same key.
	Put(t *Table, all *Batch) error
	// Remove deletes the rows with these keys; missing ones do not matter.
	Remove(t *Table, keys []Row) error
	// Recount runs Table.Recount for a span's owners.
	Recount(t *Table, owner int, span Span) error
	// SetLast sets the last assigned number; see Table.Numbers.
	SetLast(t *Table, n int64) error
	// Forget deletes log entries that View.Changes returned, after their rows were copied.
	Forget(entries []int64) error
	// SetState stores a text for the service, e.g. how far a copy is.
	SetState(service, state string) error
}

// RawView passes rows to a RawUpdate of the same engine without decoding them.
type RawView interface {
	View

	// Dump writes a span's rows in key order, in an engine format, and returns their number.
	Dump(w io.Writer, t *Table, owner int, span Span) (int64, error)
	// Sum digests a span's rows in a way only this engine can compute.
	Sum(t *Table, owner int, span Span) (Digest, error)
}

// RawUpdate reads a RawView's output.
type RawUpdate interface {
	Update

	// Load inserts rows with new keys. It returns the reader's error unchanged.
	Load(r io.Reader, t *Table) error
}

// IsRaw reports whether RawView and RawUpdate can copy the table without decoding rows.
func (t *Table) IsRaw() bool { return t.PostgresFrom == "" && t.PostgresInsert == "" }

// ErrReadOnly means that the service is read-only; see Close.
var ErrReadOnly = &errcode.Error{
	Code: errcode.Unavailable, Message: "the service is read-only: retry later",
	Fix: "holdfast read-only list shows by whom, and how to end it",
}

// ErrLapsed means that a lease has ended.
var ErrLapsed = errors.New("the lease of the copy has ended")

// Forever ends a permanent lease.
var Forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// These apply to Database.Slow. PostgreSQL refuses transactions that begin in the refused part of a period, so long
// transactions are not refused more often.
const (
	SlowPeriod = 4 * time.Second
	SlowLease  = 30 * time.Second
)

// SlowOf is the copy_state key for the refused part in milliseconds, which triggers read.
func SlowOf(service string) string { return "slow writes of " + service }

// A log also ends this many entries after the last KeepLog, so that an abandoned copy does not fill the disk. KeepLog
// returns ErrLapsed LogMargin entries earlier, because PostgreSQL writers may add entries while it commits. Spanner
// sets no limit.
const (
	LogAhead  = 5_000_000
	LogMargin = 100_000
)

// WorkOf is the copy_state key for what a service must know after a restore, such as work that it has begun and must
// finish. A copy carries it to its target.
func WorkOf(service string) string { return "work of " + service }

// EndOf is the copy_state key for the entry number at which a log ends.
func EndOf(service string) string { return "end of the log of " + service }

// LogLease is how long changes are logged after the last KeepLog.
const LogLease = 24 * time.Hour

// Where returns a span's condition and arguments. parameter returns the i-th parameter, from 1.
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
		for i, ownerKey := range span.Among {
			alternatives[i] = columns + " = " + list(ownerKey)
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

// WhereKey returns the condition for a single key.
func (t *Table) WhereKey(parameter func(i int, c Column) string) string {
	all := make([]string, t.Key)
	for i, c := range t.Columns[:t.Key] {
		all[i] = c.Name + " = " + parameter(i+1, c)
	}
	return strings.Join(all, " AND ")
}

// OnConflict returns the clause that updates all columns outside the key, except a column that the database assigns,
// which never changes.
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

// Parameters returns the parameters for all columns, separated by commas.
func (t *Table) Parameters(parameter func(i int, c Column) string) string {
	all := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		all[i] = parameter(i+1, c)
	}
	return strings.Join(all, ", ")
}
