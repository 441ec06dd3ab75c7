// Package spanner keeps Firefox Sync storage in Cloud Spanner.
//
// Users are keyed by the pair (Owner.FxAUID, Owner.FxAKID), which leads every
// key: all of a user's data lies together, and deleting a row deletes what is
// interleaved in it. A read is one query on one snapshot. A write is one
// read-write transaction: one query reads all that it decides on, the rules of
// package syncstorage decide, and what they decide travels with the commit. The
// commit of a batch moves what is staged inside the database, by statements in
// one message.
//
// There is no lock but Spanner's own: every write reads all rows of
// user_collections that the user has, and changes one of them, so the writes of
// one user are serialised.
//
// Spanner removes what has expired by itself and tells nobody, so the counters
// of user_collections may be too high. Where one of them decides, the records
// are counted anew.
package spanner

import (
	"context"
	"embed"
	"maps"
	"sync"
	"time"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/spannerdb"
	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/budget"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations are the schema changes of this backend.
func Migrations() (migrate.Set, error) {
	return migrate.Load("syncstorage", migrations, "migrations")
}

// Store implements syncstorage.Store.
type Store struct {
	db     *spannerdb.DB
	set    func() (migrate.Set, error)
	schema budget.Schema
	ids    sync.Map // collection name (string) to id (int64); neither ever changes
	names  sync.Map // the other way round
	pages  ss.Pages
}

var _ ss.Store = (*Store)(nil)

// New returns a store on a database that Migrations have been applied to, or
// will be before the first use.
func New(db *spannerdb.DB) *Store {
	s := &Store{db: db, set: sync.OnceValues(Migrations), schema: budget.Current()}
	for _, c := range ss.StandardCollections() {
		s.know(int64(c.ID), c.Name)
	}
	return s
}

func (s *Store) know(id int64, name string) {
	s.ids.Store(name, id)
	s.names.Store(id, name)
}

// Ping implements syncstorage.Store. It reads the ledger each time: a newer
// release may change the tables of a server that runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the sync database needs %d migrations: run holdfast migrate")
}

// Sweep implements syncstorage.Store: there is nothing to do, because the row
// deletion policies of the tables remove what has expired.
func (s *Store) Sweep(context.Context, ss.Timestamp, int) (int, error) { return 0, nil }

// checkOwner refuses users whom the token does not name by account and keys:
// they would all be the same one here.
func checkOwner(o ss.Owner) error {
	if o.FxAUID == "" || o.FxAKID == "" {
		return fault.New(fault.Denied, "the token has no fxa_uid or fxa_kid, which Spanner storage needs")
	}
	return nil
}

// of is the key of an owner's data, as parameters with some more.
func of(o ss.Owner, more spannerdb.Params) spannerdb.Params {
	p := spannerdb.Params{"uid": o.FxAUID, "kid": o.FxAKID}
	maps.Copy(p, more)
	return p
}

// unknown is the id of a collection whose name the server does not know; no row
// has it.
const unknown int64 = -1

// lookup is the id of a collection's name, or unknown.
func (s *Store) lookup(ctx context.Context, name string) (int64, error) {
	return s.find(name, func(st spannerdb.Statement, p spannerdb.Params, fn func(*spanner.Row) error) error {
		return s.db.ForEach(ctx, st, p, fn)
	})
}

// find looks a name up in memory, and then by each, a query on a snapshot or in
// a transaction.
func (s *Store) find(name string, each func(spannerdb.Statement, spannerdb.Params, func(*spanner.Row) error) error) (int64, error) {
	if id, ok := s.ids.Load(name); ok {
		return id.(int64), nil
	}
	id := unknown
	err := each(sqlCollectionID, spannerdb.Params{"name": name}, func(r *spanner.Row) error { return r.Columns(&id) })
	if err != nil {
		return unknown, err
	}
	if id != unknown {
		s.know(id, name)
	}
	return id, nil
}

// ensure gives a collection's name an id when the server has none for it, and
// remembers it: in a transaction of its own, so that users who need the same new
// name wait for each other no longer than that takes. It stays, whatever becomes
// of the write.
func (s *Store) ensure(ctx context.Context, o ss.Owner, w ss.Write) error {
	if err := checkOwner(o); err != nil {
		return err
	}
	id, err := s.lookup(ctx, w.Collection)
	if err != nil || id != unknown {
		return err
	}
	err = s.db.Write(ctx, "sync.name", func(tx *spannerdb.Tx) error {
		var (
			next, mine int64 // the id that is free, and how many names are the user's
			modified   = epoch
		)
		id = unknown
		if err := tx.ForEach(sqlNewName, of(o, spannerdb.Params{"name": w.Collection}), func(r *spanner.Row) error {
			var (
				known spanner.NullInt64
				was   spanner.NullTime
			)
			if err := r.Columns(&known, &next, &mine, &was); err != nil {
				return err
			}
			if known.Valid {
				id = known.Int64
			}
			if was.Valid {
				modified = was.Time
			}
			return nil
		}); err != nil || id != unknown {
			return err
		}
		if mine >= int64(w.MaxNames) {
			return ss.ErrTooManyNames
		}
		id = next
		tx.Predict(s.schema.Write("collections", "name") + s.schema.Write("user_collections", "modified", "count"))
		return tx.Buffer(
			spanner.Insert("collections", []string{"collection_id", "name"}, []any{next, w.Collection}),
			spanner.InsertOrUpdate("user_collections", append(userKey(), "modified", "count"), append(keyOf(o, ss.TombstoneID), modified, mine+1)),
		)
	})
	if err != nil {
		return err
	}
	s.know(id, w.Collection)
	return nil
}

func userKey() []string { return []string{"fxa_uid", "fxa_kid", "collection_id"} }

func keyOf(o ss.Owner, coll int64) []any { return []any{o.FxAUID, o.FxAKID, coll} }

// forever is how long a record lives of which nobody has said so, in seconds:
// the reference server's DEFAULT_BSO_TTL, some 66 years. Expiry is never NULL,
// so a record that never expires is one whose expiry is exactly that far from
// its stamp, or at the end of time; no ttl that a client may send is half as
// long.
const forever = 2_100_000_000

// expiresAt is what is stored for an expiry.
func expiresAt(modified, expiry ss.Timestamp) time.Time {
	if expiry == 0 {
		expiry = ss.ExpiresAt(modified, forever)
	}
	return expiry.Time()
}

// expiryOf is expiresAt, read back.
func expiryOf(modified ss.Timestamp, stored time.Time) ss.Timestamp {
	expiry := stamp(stored)
	if expiry-modified == forever*1000 || expiry == ss.MaxTimestamp {
		return 0
	}
	return expiry
}

func stamp(t time.Time) ss.Timestamp { return ss.Timestamp(t.UnixMilli()) }

func optional(n spanner.NullInt64) ss.Optional[int64] {
	return ss.Optional[int64]{Value: n.Int64, Set: n.Valid}
}

// number is an integer that is NULL when it is not set.
func number(n ss.Optional[int64]) spanner.NullInt64 {
	return spanner.NullInt64{Int64: n.Value, Valid: n.Set}
}
