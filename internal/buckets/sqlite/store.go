// Package sqlite stores bucket metadata in a SQLite file. Each write is a step of the file's group-commit writer,
// which serves as the lock that package buckets requires: the step reads the current state, checks the rules, and
// writes. A read is a snapshot.
//
// Statements contain LIMIT +? because SQLite prepares LIMIT ? again for every bound value.
package sqlite

import (
	"context"
	"embed"
	"encoding/json"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's history.
func Migrations() (migrate.Set, error) { return migrate.Load("buckets", migrations, "migrations") }

// Store keeps the metadata in an SQLite file. A single writer commits groups of writes; reads use snapshots. It is safe
// for concurrent use, and several processes may share the file.
type Store struct {
	db  *sqlitedb.DB
	set func() (migrate.Set, error)

	cache  bucketCache
	events events
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

// New returns a store on a file. Apply Migrations first.
func New(db *sqlitedb.DB) *Store {
	return &Store{db: db, set: sync.OnceValues(Migrations), cache: bucketCache{clock: time.Now}, events: events{wake: func(string, string, string) {}}}
}

// Ping implements buckets.Store.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the buckets database needs %d migrations")
}

var errStop = errcode.New(errcode.Internal, "the reader stopped")

// orNull stores a zero value as NULL.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// bytesOrNull stores nil as NULL.
func bytesOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// jsonOrNull encodes v, or returns NULL if n, its number of elements, is 0.
func jsonOrNull(v any, n int) (any, error) {
	if n == 0 {
		return nil, nil //nolint:nilnil // NULL
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// column decodes a JSON column into v, and does not change v for NULL.
func column(r *sqlite.Stmt, i int, v any) error {
	if r.ColumnIsNull(i) {
		return nil
	}
	if err := json.Unmarshal([]byte(r.ColumnText(i)), v); err != nil {
		return errcode.Wrap(errcode.Internal, "decode a column of the buckets database", err)
	}
	return nil
}

// CRC-64/NVME and frames are set together: they describe the file format; CRC32C alone comes from an earlier release.
const sumColumns = `content_crc32c, content_crc64nvme, content_frames`

// sums reads sumColumns from column i on.
func sums(r *sqlite.Stmt, i int, b *buckets.Body) {
	if !r.ColumnIsNull(i) {
		b.CRC32C = optional.Some(uint32(r.ColumnInt64(i)))
	}
	if !r.ColumnIsNull(i + 1) {
		b.Frames = optional.Some(buckets.Frames{CRC64NVME: uint64(r.ColumnInt64(i + 1)), ID: uint64(r.ColumnInt64(i + 2))})
	}
}

// orNulls returns NULLs if the body has no frames, because it is in the row or an earlier release wrote it. SQLite
// integers are signed: the bits are kept.
func orNulls(f optional.Of[buckets.Frames]) (crc64, id any) {
	if !f.Set {
		return nil, nil
	}
	return int64(f.Value.CRC64NVME), int64(f.Value.ID)
}

// blob copies a column, since SQLite reuses its memory.
func blob(r *sqlite.Stmt, i int) []byte {
	if r.ColumnIsNull(i) {
		return nil
	}
	b := make([]byte, r.ColumnLen(i))
	r.ColumnBytes(i, b)
	return b
}
