package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	ss "holdfast/internal/syncstorage"
)

// writeState is a write to a user's collection, in a transaction: check reads and decides, then change writes. The
// writer runs one transaction at a time, so the rows do not change in between.
type writeState struct {
	c    *sqlite.Conn
	user int64
	w    ss.Write
	// the collection's ID, 0 while its name is unknown
	coll int64
	// whether the write gives the collection an ID
	named bool
	// whether the user has a row of counters
	known bool
	// the user's last stamp
	last ss.Timestamp
	// the collection before the write
	found collection
	// stored bytes before the write, expired ones included
	used ss.Used
	// the write's time: now, but later than last
	stamp ss.Timestamp

	changes
	// records and stored bytes that the write adds
	delta   ss.Delta
	expired int64 // bytes of expired records replaced or deleted
	expires int64 // bytes written that are already expired
	// whether the changes were written: expiredBytes then includes them
	applied bool
	// the batch's staged records that the request replaces
	stage staged
	// bytes after the write; expired ones excluded if the quota depends on them
	after ss.Used
}

type collection struct {
	Modified ss.Timestamp
	// stored records, expired ones included
	Count int64
	// stored payload bytes, expired ones included
	Bytes int64
	// whether the user has the collection at all
	Row bool
}

// scanCollection reads a collection's stamp and counters.
func scanCollection(s *sqlite.Stmt) collection {
	return collection{ss.Timestamp(s.ColumnInt64(0)), s.ColumnInt64(1), s.ColumnInt64(2), true}
}

// call describes a write.
type call struct {
	// for metrics
	name  string
	owner ss.Owner
	// whether the write makes the collection if it is missing
	creates bool
	// whether the write may take long, so that no other write shares its commit
	large bool
}

// write runs check, which reads and decides, and then change. Both may run twice and must be idempotent. A new name
// is cached only after the commit.
func (s *Store) write(ctx context.Context, m call, w ss.Write, check, change func(*writeState) error) error {
	if err := m.owner.CheckUID(); err != nil {
		return err
	}
	var st *writeState
	coll := s.cached(w.Collection)
	begin := func(c *sqlite.Conn) error {
		st = &writeState{c: c, user: m.owner.UID, w: w, coll: coll}
		if err := st.begin(m.creates); err != nil {
			return err
		}
		return check(st)
	}
	end := func(*sqlite.Conn) error {
		if err := st.name(); err != nil {
			return err
		}
		return change(st)
	}
	var err error
	if m.large {
		err = s.db.WriteAlone(ctx, m.name, func(c *sqlite.Conn) error {
			if err := begin(c); err != nil {
				return err
			}
			return end(c)
		})
	} else {
		err = s.db.WriteChecked(ctx, m.name, begin, end)
	}
	if err == nil && coll == 0 && st.coll != 0 {
		s.names.Store(w.Collection, st.coll)
	}
	return err
}

// cached returns 0 for an unknown name.
func (s *Store) cached(name string) int64 {
	if id, ok := s.names.Load(name); ok {
		return id.(int64)
	}
	return 0
}

func scanInt64(s *sqlite.Stmt) int64 { return s.ColumnInt64(0) }

// begin reads the collection's and the user's counters and chooses the stamp. With creates, it returns ErrTooManyNames
// if the user may not add a name.
func (st *writeState) begin(creates bool) error {
	if st.coll == 0 {
		id, found, err := sqlitedb.QueryRow(st.c, sqlCollectionID, scanInt64, st.w.Collection)
		if err != nil {
			return err
		}
		st.coll, st.named = id, !found && creates
	}
	var user collection
	err := sqlitedb.ForEach(st.c, sqlCounters, func(s *sqlite.Stmt) error {
		c := scanCollection(s)
		switch id := s.ColumnInt64(3); id {
		case ss.TombstoneID:
			user = c
			st.w.Quota = st.w.Quota.For(optional(s, 4))
			return nil
		case st.coll:
			st.found = c
			st.used.Collection = c.Bytes
		}
		st.used.User += c.Bytes
		return nil
	}, st.user)
	if err != nil {
		return err
	}
	if st.named && user.Count >= int64(st.w.MaxNames) {
		return ss.ErrTooManyNames
	}
	st.known, st.last = user.Row, user.Modified
	st.stamp = ss.NextStamp(st.w.Now, st.last)
	return nil
}

// name gives a new collection name an ID.
func (st *writeState) name() error {
	if !st.named {
		return nil
	}
	if err := sqlitedb.Exec(st.c, sqlInsertName, st.w.Collection); err != nil {
		return err
	}
	st.coll, st.known = st.c.LastInsertRowID(), true
	return sqlitedb.Exec(st.c, sqlCountName, st.user)
}

// open adds the collection's row if it is missing.
func (st *writeState) open(modified ss.Timestamp) error {
	if st.found.Row {
		return nil
	}
	return sqlitedb.Exec(st.c, sqlAddCollection, st.user, st.coll, modified)
}

// finish writes the counters and stamps of the collection and the user.
func (st *writeState) finish() (ss.Written, error) {
	err := sqlitedb.Exec(st.c, sqlSetCollection, st.stamp, st.delta.Records, st.delta.Bytes, st.user, st.coll)
	if err == nil {
		err = st.setUser()
	}
	return ss.Written{Modified: st.stamp, Previous: st.found.Modified, Used: st.after, Quota: st.w.Quota}, err
}

// setUser writes the user's stamp.
func (st *writeState) setUser() error {
	sql := sqlSetUser
	if !st.known {
		sql = sqlAddUser
	}
	return sqlitedb.Exec(st.c, sql, st.stamp, st.user)
}

// quota checks the quota. It sums unswept expired records, which is expensive, only if the result depends on them.
func (st *writeState) quota() error {
	q := st.w.Quota
	if !q.Limited() {
		return nil
	}
	st.after = st.used.Add(st.delta.Bytes)
	// Replacing an expired record is growth, although the counters may not grow.
	grown := st.delta.Bytes + st.expired
	if q.Exceeded(st.after.Add(-grown), st.after) {
		expired, err := st.expiredBytes()
		if err != nil {
			return err
		}
		st.after = ss.Used{Collection: st.after.Collection - expired.Collection, User: st.after.User - expired.User}
		if !st.applied {
			st.after = st.after.Add(st.expired - st.expires)
		}
	}
	return q.Check(st.after.Add(-grown), st.after)
}

// expiredBytes sums the payloads that count no more but are still stored.
func (st *writeState) expiredBytes() (ss.Used, error) {
	used, _, err := sqlitedb.QueryRow(st.c, sqlExpiredBytes, func(s *sqlite.Stmt) ss.Used {
		return ss.Used{Collection: s.ColumnInt64(0), User: s.ColumnInt64(1)}
	}, st.coll, st.stamp, st.user)
	return used, err
}

// optional reads a column that may be NULL.
func optional(s *sqlite.Stmt, col int) ss.Optional[int64] {
	if s.ColumnIsNull(col) {
		return ss.Optional[int64]{}
	}
	return ss.Some(s.ColumnInt64(col))
}

// Put implements syncstorage.Store.
func (s *Store) Put(ctx context.Context, o ss.Owner, w ss.Write, u ss.Update) (written ss.Written, err error) {
	err = s.write(ctx, call{name: "sync.put", owner: o, creates: true}, w, func(st *writeState) error {
		old, err := st.lookUp(u.ID)
		if err != nil {
			return err
		}
		if err := w.If.Check(old.modified(st.stamp)); err != nil {
			return err
		}
		st.plan(&old, &u, ss.Direct)
		return st.quota()
	}, func(st *writeState) error {
		written, err = st.store()
		return err
	})
	return written, err
}

// Post implements syncstorage.Store.
func (s *Store) Post(ctx context.Context, o ss.Owner, w ss.Write, us []ss.Update) (written ss.Written, err error) {
	us = descending(ss.Distinct(us))
	err = s.write(ctx, call{name: "sync.post", owner: o, creates: true}, w, func(st *writeState) error {
		if err := w.If.Check(st.found.Modified); err != nil {
			return err
		}
		old, err := st.lookUpAll(len(us), func(i int) string { return us[i].ID })
		if err != nil {
			return err
		}
		st.expect(len(us))
		for i := range us {
			st.plan(&old[i], &us[i], ss.Direct)
		}
		return st.quota()
	}, func(st *writeState) error {
		written, err = st.store()
		return err
	})
	return written, err
}

// store writes the collection, the changes and the counters.
func (st *writeState) store() (ss.Written, error) {
	if err := st.open(st.stamp); err != nil {
		return ss.Written{}, err
	}
	if err := st.apply(); err != nil {
		return ss.Written{}, err
	}
	return st.finish()
}
