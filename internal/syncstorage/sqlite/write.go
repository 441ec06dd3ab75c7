package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	ss "holdfast/internal/syncstorage"
)

// step is a write under way: what it found under the lock and what it has
// changed so far.
type step struct {
	c     *sqlite.Conn
	user  int64
	w     ss.Write
	coll  int64 // 0: the collection's name is unknown
	known bool  // the user has a row
	last  ss.Timestamp
	found collection
	stamp ss.Timestamp // of this write

	delta   ss.Delta
	expired int64 // bytes of expired records that the step replaced or deleted
}

// collection is a row of user_collections.
type collection struct {
	Modified ss.Timestamp // 0: does not exist, or is hidden
	Count    int64
	Bytes    int64
	Row      bool
}

func scanCollection(s *sqlite.Stmt) collection {
	return collection{ss.Timestamp(s.ColumnInt64(0)), s.ColumnInt64(1), s.ColumnInt64(2), true}
}

// kind is what the steps of a method have in common.
type kind struct {
	name    string
	creates bool // the collection's name, when that is new
	large   bool // they may change any number of records
}

// write runs fn as one step of the writer. A new name reaches the cache only
// once it is durable.
func (s *Store) write(ctx context.Context, k kind, o ss.Owner, w ss.Write, fn func(*step) error) error {
	if err := o.CheckUID(); err != nil {
		return err
	}
	coll := s.cached(w.Collection)
	fresh := coll == 0
	run := s.db.Write
	if k.large {
		run = s.db.WriteAlone
	}
	err := run(ctx, k.name, func(c *sqlite.Conn) (err error) {
		st := &step{c: c, user: o.UID, w: w, coll: coll}
		if fresh {
			if st.coll, err = resolve(c, o.UID, w, k.creates); err != nil {
				return err
			}
			coll = st.coll
		}
		user, _, err := sqlitedb.One(c, sqlUserCollection, scanCollection, o.UID, ss.TombstoneID)
		if err != nil {
			return err
		}
		if st.found, _, err = sqlitedb.One(c, sqlUserCollection, scanCollection, o.UID, st.coll); err != nil {
			return err
		}
		if st.coll == ss.TombstoneID {
			st.found = collection{} // an unknown name, not the user's own row
		}
		st.known, st.last = user.Row, user.Modified
		st.stamp = ss.NextStamp(w.Now, st.last)
		return fn(st)
	})
	if err == nil && fresh && coll != 0 {
		s.names.Store(w.Collection, coll)
	}
	return err
}

func (s *Store) cached(name string) int64 {
	if id, ok := s.names.Load(name); ok {
		return id.(int64)
	}
	return 0
}

func scanInt64(s *sqlite.Stmt) int64 { return s.ColumnInt64(0) }

// resolve finds the id of a name, or gives it one.
func resolve(c *sqlite.Conn, user int64, w ss.Write, create bool) (int64, error) {
	id, found, err := sqlitedb.One(c, sqlCollectionID, scanInt64, w.Collection)
	if err != nil || found || !create {
		return id, err
	}
	mine, _, err := sqlitedb.One(c, sqlUserCollection, scanCollection, user, ss.TombstoneID)
	if err != nil {
		return 0, err
	}
	if mine.Count >= int64(w.MaxNames) {
		return 0, ss.ErrTooManyNames
	}
	if err := sqlitedb.Exec(c, sqlInsertName, w.Collection); err != nil {
		return 0, err
	}
	return c.LastInsertRowID(), sqlitedb.Exec(c, sqlCountName, user)
}

// open makes sure that the collection has a row, which its records need as
// their parent.
func (st *step) open(modified ss.Timestamp) error {
	if st.found.Row {
		return nil
	}
	return sqlitedb.Exec(st.c, sqlAddCollection, st.user, st.coll, modified)
}

// finish moves the stamps, counts what the step changed, and holds it against
// the quota; its error undoes the step.
func (st *step) finish() (ss.Written, error) {
	err := sqlitedb.Exec(st.c, sqlSetCollection, st.stamp, st.delta.Records, st.delta.Bytes, st.user, st.coll)
	if err != nil {
		return ss.Written{}, err
	}
	if err := st.setUser(); err != nil {
		return ss.Written{}, err
	}
	used, err := st.quota()
	return ss.Written{Modified: st.stamp, Previous: st.found.Modified, Used: used}, err
}

// setUser moves the user's stamp.
func (st *step) setUser() error {
	sql := sqlSetUser
	if !st.known {
		sql = sqlAddUser
	}
	return sqlitedb.Exec(st.c, sql, st.stamp, st.user)
}

// quota returns the user's bytes after the step. What has expired and is not
// swept yet is subtracted only where it decides, because finding it costs.
func (st *step) quota() (int64, error) {
	q := st.w.Quota
	if q.Limit <= 0 {
		return 0, nil
	}
	after, _, err := sqlitedb.One(st.c, sqlUsedBytes, scanInt64, st.user)
	if err != nil {
		return 0, err
	}
	// A record that takes the place of an expired one is new to the quota,
	// though the counters may not grow.
	before := after - st.delta.Bytes - st.expired
	if q.Exceeded(before, after) {
		expired, _, err := sqlitedb.One(st.c, sqlExpiredBytes, scanInt64, st.stamp, st.user)
		if err != nil {
			return 0, err
		}
		before -= expired
		after -= expired
	}
	return after, q.Check(before, after)
}

// header reads a record without its payload, and the payload's length.
func (st *step) header(id string) (b *ss.BSO, bytes int64, err error) {
	var found ss.BSO
	bytes, ok, err := sqlitedb.One(st.c, sqlHeader, func(s *sqlite.Stmt) int64 {
		found = ss.BSO{ID: id, SortIndex: optional(s, 0), Modified: ss.Timestamp(s.ColumnInt64(1)), Expiry: ss.Timestamp(s.ColumnInt64(2))}
		return s.ColumnInt64(3)
	}, st.user, st.coll, id)
	if err != nil || !ok {
		return nil, 0, err
	}
	return &found, bytes, nil
}

func optional(s *sqlite.Stmt, col int) ss.Optional[int64] {
	if s.ColumnIsNull(col) {
		return ss.Optional[int64]{}
	}
	return ss.Some(s.ColumnInt64(col))
}

// put merges one record into the collection.
func (st *step) put(old *ss.BSO, oldBytes int64, u *ss.Update, mode ss.MergeMode) error {
	b, delta := ss.Merge(old, u, st.stamp, mode)
	live := old != nil && old.Live(st.stamp)
	if live && !u.Payload.Set {
		// The payload stays where it is; old was read without it.
		st.delta = st.delta.Add(delta)
		return sqlitedb.Exec(st.c, sqlUpdateHeader, orNull(b.SortIndex), b.Modified, expiry(b.Expiry), st.user, st.coll, b.ID)
	}
	delta.Bytes -= oldBytes
	if old != nil && !live {
		st.expired += oldBytes
	}
	st.delta = st.delta.Add(delta)
	sql := sqlUpdateBSO
	if old == nil {
		sql = sqlInsertBSO
	}
	return sqlitedb.Exec(st.c, sql, orNull(b.SortIndex), b.Modified, expiry(b.Expiry), b.Payload, st.user, st.coll, b.ID)
}

// putAll merges records in their order.
func (st *step) putAll(us []ss.Update, mode ss.MergeMode) error {
	for i := range us {
		old, bytes, err := st.header(us[i].ID)
		if err != nil {
			return err
		}
		if err := st.put(old, bytes, &us[i], mode); err != nil {
			return err
		}
	}
	return nil
}

// Put implements syncstorage.Store.
func (s *Store) Put(ctx context.Context, o ss.Owner, w ss.Write, u ss.Update) (written ss.Written, err error) {
	err = s.write(ctx, kind{name: "sync.put", creates: true}, o, w, func(st *step) error {
		old, bytes, err := st.header(u.ID)
		if err != nil {
			return err
		}
		if err := w.If.Check(modified(old, st.stamp)); err != nil {
			return err
		}
		if err := st.open(st.stamp); err != nil {
			return err
		}
		if err := st.put(old, bytes, &u, ss.Direct); err != nil {
			return err
		}
		written, err = st.finish()
		return err
	})
	return written, err
}

// modified is the stamp of a record as a precondition sees it.
func modified(b *ss.BSO, horizon ss.Timestamp) ss.Timestamp {
	if b == nil || !b.Live(horizon) {
		return 0
	}
	return b.Modified
}

// Post implements syncstorage.Store.
func (s *Store) Post(ctx context.Context, o ss.Owner, w ss.Write, us []ss.Update) (written ss.Written, err error) {
	err = s.write(ctx, kind{name: "sync.post", creates: true}, o, w, func(st *step) error {
		if err := w.If.Check(st.found.Modified); err != nil {
			return err
		}
		if err := st.open(st.stamp); err != nil {
			return err
		}
		if err := st.putAll(us, ss.Direct); err != nil {
			return err
		}
		written, err = st.finish()
		return err
	})
	return written, err
}
