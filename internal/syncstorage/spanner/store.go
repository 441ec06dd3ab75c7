// Package spanner stores Firefox Sync data in Cloud Spanner.
//
// (Owner.FxAUID, Owner.FxAKID) begins every key, so a user's data is stored together, and deleting a row deletes the
// rows interleaved in it. A read is a single query and snapshot. A write is a transaction: a query reads everything
// needed, the rules of package syncstorage decide, and the commit contains the changes.
//
// Spanner's own locks serialize a user's writes: each write reads all the user's rows in user_collections and changes
// one.
//
// Spanner deletes expired records by itself without notice, so counters may be too high. Before a counter causes an
// error, the records are counted again.
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
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/budget"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's history.
func Migrations() (migrate.Set, error) {
	return migrate.Load("syncstorage", migrations, "migrations")
}

// Store keeps records in Spanner, in the tables of Mozilla's server. It is safe for concurrent use.
type Store struct {
	db  *spannerdb.DB
	set func() (migrate.Set, error)
	// for predicting mutations
	schema budget.Schema
	// collection IDs by name
	ids sync.Map
	// names by collection ID
	names sync.Map
	pages ss.Pages
}

var _ ss.Store = (*Store)(nil)

// New returns a store on a database with Migrations applied.
func New(db *spannerdb.DB) *Store {
	s := &Store{db: db, set: sync.OnceValues(Migrations), schema: budget.Current()}
	for _, c := range ss.StandardCollections() {
		s.know(int64(c.ID), c.Name)
	}
	return s
}

// know caches a collection, both ways. IDs never change.
func (s *Store) know(id int64, name string) {
	s.ids.Store(name, id)
	s.names.Store(id, name)
}

// Ping implements syncstorage.Store.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the sync database needs %d migrations: run holdfast migrate")
}

// Sweep does nothing, because row deletion policies remove expired rows.
func (s *Store) Sweep(context.Context, ss.Timestamp, int) (int, error) { return 0, nil }

// EndBatches implements syncstorage.AdminStore.
func (s *Store) EndBatches(ctx context.Context) error {
	return s.db.UpdateAll(ctx, "sync.end_batches", `UPDATE batches SET expiry = TIMESTAMP_MILLIS(0) WHERE true`, nil)
}

// checkOwner returns errcode.Denied without the parts of the key, which come from the token.
func checkOwner(o ss.Owner) error {
	if o.FxAUID == "" || o.FxAKID == "" {
		return errcode.New(errcode.Denied, "the token has no fxa_uid or fxa_kid, which Spanner storage needs")
	}
	return nil
}

// of adds the user's key to parameters.
func of(o ss.Owner, more spannerdb.Params) spannerdb.Params {
	p := spannerdb.Params{"uid": o.FxAUID, "kid": o.FxAKID}
	maps.Copy(p, more)
	return p
}

// The ID of a collection whose name nobody uses.
const unknown int64 = -1

// lookup returns unknown if nobody uses the name.
func (s *Store) lookup(ctx context.Context, name string) (int64, error) {
	return s.find(name, func(st spannerdb.Statement, p spannerdb.Params, fn func(*spanner.Row) error) error {
		return s.db.ForEach(ctx, st, p, fn)
	})
}

// find looks in the cache, and then runs a query with each, inside or outside a transaction.
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

// ensure inserts a new collection name in a short transaction of its own, so that users who need the name do not wait
// for each other's writes.
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
			next, mine int64 // next free ID, and names added by the user
			modified   = epoch
			c          control
		)
		id = unknown
		p := of(o, spannerdb.Params{"name": w.Collection, "shard": spannerdb.Shard(o.FxAUID, o.FxAKID)})
		if err := tx.ForEach(sqlNewName, p, func(r *spanner.Row) error {
			var (
				known spanner.NullInt64
				was   spanner.NullTime
			)
			if err := r.Columns(&known, &next, &mine, &was, &c.readOnly, &c.logged); err != nil {
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
		if c.readOnly {
			return spannerdb.ErrReadOnly
		}
		if mine >= int64(w.MaxNames) {
			return ss.ErrTooManyNames
		}
		id = next
		if c.logged {
			keys := map[string][][]any{"collections": {{next}}, "user_collections": {{o.UID, int64(ss.TombstoneID)}}}
			if err := tx.LogChanges("syncstorage", keys); err != nil {
				return err
			}
		}
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

// userKey names the key columns of user_collections.
func userKey() []string { return []string{"fxa_uid", "fxa_kid", "collection_id"} }

// keyOf returns the values for userKey.
func keyOf(o ss.Owner, coll int64) []any { return []any{o.FxAUID, o.FxAKID, coll} }

// forever is the TTL, in seconds, of records without a TTL: the reference server's DEFAULT_BSO_TTL, about 66 years.
// Expiry is never NULL: a record never expires if its expiry is exactly that long after its stamp, or the end of
// time. Clients cannot set even half of it.
const forever = 2_100_000_000

// expiresAt encodes an expiry; 0 (never) becomes forever after modified.
func expiresAt(modified, expiry ss.Timestamp) time.Time {
	if expiry == 0 {
		expiry = ss.ExpiresAt(modified, forever)
	}
	return expiry.Time()
}

// expiryOf decodes an expiry.
func expiryOf(modified ss.Timestamp, stored time.Time) ss.Timestamp {
	expiry := stamp(stored)
	if expiry-modified == forever*1000 || expiry == ss.MaxTimestamp {
		return 0
	}
	return expiry
}

// stamp cuts a time to milliseconds.
func stamp(t time.Time) ss.Timestamp { return ss.Timestamp(t.UnixMilli()) }

// optional reads a column that may be NULL.
func optional(n spanner.NullInt64) ss.Optional[int64] {
	return ss.Optional[int64]{Value: n.Int64, Set: n.Valid}
}

// number encodes an unset value as NULL.
func number(n ss.Optional[int64]) spanner.NullInt64 {
	return spanner.NullInt64{Int64: n.Value, Valid: n.Set}
}
