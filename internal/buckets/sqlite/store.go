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

func Migrations() (migrate.Set, error) { return migrate.Load("buckets", migrations, "migrations") }

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

func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

func bytesOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func jsonOrNull(v any, n int) (any, error) {
	if n == 0 {
		return nil, nil //nolint:nilnil // NULL
	}
	text, err := json.Marshal(v)
	return string(text), err
}

func column(r *sqlite.Stmt, i int, v any) error {
	if r.ColumnIsNull(i) {
		return nil
	}
	if err := json.Unmarshal([]byte(r.ColumnText(i)), v); err != nil {
		return errcode.Wrap(errcode.Internal, "decode a column of the buckets database", err)
	}
	return nil
}

const sumColumns = `content_crc32c, content_crc64nvme, content_frames`

func sums(r *sqlite.Stmt, i int, b *buckets.Body) {
	if !r.ColumnIsNull(i) {
		b.CRC32C = optional.Some(uint32(r.ColumnInt64(i)))
	}
	if !r.ColumnIsNull(i + 1) {
		b.Frames = optional.Some(buckets.Frames{CRC64NVME: uint64(r.ColumnInt64(i + 1)), ID: uint64(r.ColumnInt64(i + 2))})
	}
}

func orNulls(f optional.Of[buckets.Frames]) (crc64, id any) {
	if !f.Set {
		return nil, nil
	}
	return int64(f.Value.CRC64NVME), int64(f.Value.ID)
}

func blob(r *sqlite.Stmt, i int) []byte {
	if r.ColumnIsNull(i) {
		return nil
	}
	b := make([]byte, r.ColumnLen(i))
	r.ColumnBytes(i, b)
	return b
}
