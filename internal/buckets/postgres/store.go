// Package postgres stores bucket metadata in PostgreSQL, on a single server or distributed by Citus.
//
// A frequent write is a single call of a PL/pgSQL function, so it takes one round trip and one transaction. The
// function locks the bucket against deletion and the object name, applies the rules of package buckets, and writes.
// Update computes in Go between lock and write. Complete computes from data that was read without a lock. A listing
// page is also a single call and therefore a snapshot. On Citus the owner is the distribution column; only the
// sweep's searches omit it.
package postgres

import (
	"context"
	"embed"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's history.
func Migrations() (migrate.Set, error) { return migrate.Load("buckets", migrations, "migrations") }

// Store keeps the metadata in PostgreSQL or Citus, distributed by account: statements with Key run on the account's
// node. It is safe for concurrent use.
type Store struct {
	db   *pgdb.DB
	set  func() (migrate.Set, error)
	wake func(destination, owner, stream string) // called after a commit with events
}

var (
	_ buckets.Store      = (*Store)(nil)
	_ buckets.Versions   = (*Store)(nil)
	_ buckets.Uploads    = (*Store)(nil)
	_ buckets.Collector  = (*Store)(nil)
	_ buckets.References = (*Store)(nil)
	_ buckets.Counters   = (*Store)(nil)
	_ buckets.Accounts   = (*Store)(nil)
	_ buckets.Nodes      = (*Store)(nil)
	_ buckets.Leases     = (*Store)(nil)
	_ buckets.Damages    = (*Store)(nil)
	_ buckets.Scrubs     = (*Store)(nil)
	_ buckets.Lifecycles = (*Store)(nil)
	_ buckets.Events     = (*Store)(nil)
)

// New returns a store on a migrated database.
func New(db *pgdb.DB) *Store {
	return &Store{db: db.Distributed("manta_bucket"), set: sync.OnceValues(Migrations), wake: func(string, string, string) {}}
}

// Ping always reads the migrations, because a newer release may migrate the database at any time.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the buckets database needs %d migrations: run holdfast migrate")
}

// These are results of functions. 0 and above mean success.
const (
	noBucket     = -1
	precondition = -2
	noObject     = -3
	needsAll     = -4 // the spare of a slot is too small, so all slots must be locked
	overBucket   = -5
	overAccount  = -6
	noUpload     = -7
	notEmpty     = -8
	nodeRemoved  = -9
	partsChanged = -10
	noVersion    = -11
	hasVersions  = -12 // bucket_delete_objects_v2 requires an unversioned bucket
	locked       = -13
	versioning   = -14 // object lock requires versioning
	noLock       = -15
)

// errAll means that the function must be called again with p_all, which locks all usage slots.
var errAll = errcode.New(errcode.Internal, "all slots must be locked")

// failed turns a function's result code into an error, nil from 0 on.
func failed(result int64) error {
	switch result {
	case noBucket:
		return buckets.ErrNoBucket
	case precondition:
		return buckets.ErrPrecondition
	case noObject:
		return buckets.ErrNoObject
	case needsAll:
		return errAll
	case overBucket:
		return &buckets.QuotaError{}
	case overAccount:
		return &buckets.QuotaError{Account: true}
	case noUpload:
		return buckets.ErrNoUpload
	case notEmpty:
		return buckets.ErrBucketNotEmpty
	case noVersion:
		return buckets.ErrNoVersion
	case nodeRemoved:
		return buckets.ErrNodeRemoved
	case locked:
		return &buckets.LockedError{}
	case versioning:
		return buckets.ErrLockVersioning
	case noLock:
		return buckets.ErrNoLock
	}
	if result < 0 {
		return errcode.Newf(errcode.Internal, "unknown result %d from a function in the buckets database", result)
	}
	return nil
}

// twice calls fn again with all = true if the account's usage slot does not suffice to check a quota: almost all writes
// need a single slot, and do not wait for each other.
func twice(fn func(all bool) error) error {
	err := fn(false)
	if err == errAll { //nolint:errorlint // never wrapped
		err = fn(true)
	}
	return err
}

// run calls a function that returns a result code.
func (s *Store) run(ctx context.Context, st pgdb.Statement, args ...any) (result int64, err error) {
	if _, err = s.db.QueryRow(ctx, st, args, &result); err != nil {
		return 0, err
	}
	return result, failed(result)
}

// at returns a parameter.
func at(m buckets.Moment) time.Time { return m.Time() }

// atOrNull stores 0 as NULL.
func atOrNull(m buckets.Moment) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: m.Time(), Valid: m != 0}
}

// momentOf returns 0 for NULL.
func momentOf(t pgtype.Timestamptz) buckets.Moment {
	if !t.Valid {
		return 0
	}
	return buckets.At(t.Time)
}

// orNull stores "" as NULL.
func orNull[T ~string](v T) *string {
	if v == "" {
		return nil
	}
	text := string(v)
	return &text
}

// orNulls returns NULLs if the body has no frames. PostgreSQL integers are signed: the bits are kept.
func orNulls(f optional.Of[buckets.Frames]) (crc64, id pgtype.Int8) {
	return pgtype.Int8{Int64: int64(f.Value.CRC64NVME), Valid: f.Set}, pgtype.Int8{Int64: int64(f.Value.ID), Valid: f.Set}
}

// sums holds the destinations for sumColumns.
type sums struct{ crc32c, crc64, id *int64 }

// dest appends the destinations to those before.
func (s *sums) dest(before ...any) []any { return append(before, &s.crc32c, &s.crc64, &s.id) }

// set sets the checksums to verify. If an earlier release replaced a body, the row has the old frames but also a
// CRC32C.
func (s *sums) set(b *buckets.Body) {
	switch {
	case s.crc32c != nil:
		b.CRC32C = optional.Some(uint32(*s.crc32c))
	case s.crc64 != nil && s.id != nil && b.Inline == nil:
		b.Frames = optional.Some(buckets.Frames{ID: uint64(*s.id), CRC64NVME: uint64(*s.crc64)})
	}
}

// listOrNil stores an empty list as NULL.
func listOrNil(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

// pairs splits headers into parallel arrays, in any order.
func pairs(headers map[string]string) (names, values []string) {
	for name, value := range headers {
		names, values = append(names, name), append(values, value)
	}
	return names, values
}

// textOrNull stores nil as NULL.
func textOrNull(text []byte) *string {
	if text == nil {
		return nil
	}
	s := string(text)
	return &s
}

// row decodes a text array. It keeps the first error.
type textRow struct {
	columns []*string
	err     error
}

// fail keeps the first error.
func (r *textRow) fail(err error) {
	if r.err == nil && err != nil {
		r.err = errcode.Wrap(errcode.Internal, "decode a row of the buckets database", err)
	}
}

// text returns "" for NULL.
func (r *textRow) text(i int) string {
	if r.columns[i] == nil {
		return ""
	}
	return *r.columns[i]
}

// number returns 0 for NULL.
func (r *textRow) number(i int) int64 {
	if r.columns[i] == nil {
		return 0
	}
	n, err := strconv.ParseInt(*r.columns[i], 10, 64)
	r.fail(err)
	return n
}

// bytes decodes hexadecimal. It returns nil for NULL.
func (r *textRow) bytes(i int) []byte {
	if r.columns[i] == nil {
		return nil
	}
	b, err := hex.DecodeString(*r.columns[i])
	r.fail(err)
	return b
}

// json decodes JSON into v. NULL does not change v.
func (r *textRow) json(i int, v any) {
	if r.columns[i] != nil {
		r.fail(json.Unmarshal([]byte(*r.columns[i]), v))
	}
}

// properties decodes an object's properties.
func (r *textRow) properties(i int) buckets.Properties {
	p, err := buckets.DecodeProperties([]byte(r.text(i)))
	r.fail(err)
	return p
}
