package spanner

import (
	"context"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/budget"
)

// step is a write under way: what it found, and what it is going to change.
type step struct {
	s    *Store
	tx   *spannerdb.Tx
	o    ss.Owner
	w    ss.Write
	coll int64 // unknown where the server does not know the name

	rows    map[int64]collection // all of the user's
	own     ss.Optional[int64]   // the user's own quota
	last    ss.Timestamp
	found   collection // the write's
	stamp   ss.Timestamp
	records map[string]record // of those named, the ones that are there
	batch   batch
	merged  merged

	parent  *spanner.Mutation   // the collection's row, which comes before its records
	changes []*spanner.Mutation // the others
	load    budget.Load         // what the commit carries
	delta   ss.Delta            // of the collection's rows
	live    int64               // by how much the user's live bytes change
}

// collection is a row of user_collections.
type collection struct {
	row      bool
	modified ss.Timestamp // 0: does not exist, or only its open batches do
	counted  bool         // count and bytes are there
	count    int64
	bytes    int64
}

// record is a row of bsos without its payload.
type record struct {
	ss.BSO
	bytes int64
}

// batch is an open batch, and what is staged in it of the records named.
type batch struct {
	open   bool
	expiry ss.Timestamp
	total  ss.Delta
	ids    int64 // bytes of all ids
	staged map[string]staged
}

type staged struct {
	payload ss.Optional[int64] // bytes
	ttl     ss.Optional[int64]
}

// merged is what the commit of a batch makes of the collection.
type merged struct {
	there    int64 // records that are there already
	old, new int64 // bytes of those, and of what takes their place
	oldLive  int64 // the same of what is alive
	newLive  int64
}

// part reads a row of a statement made by read.
func (st *step) part(r *spanner.Row) error {
	var (
		part             int64
		id               spanner.NullString
		n, a, b, c, d    spanner.NullInt64
		modified, expiry spanner.NullTime
	)
	if err := r.Columns(&part, &id, &n, &modified, &a, &expiry, &b, &c, &d); err != nil {
		return err
	}
	switch part {
	case 0:
		row := collection{row: true, modified: stamp(modified.Time), counted: a.Valid && b.Valid, count: a.Int64, bytes: b.Int64}
		st.rows[n.Int64] = row
		st.last = max(st.last, row.modified)
		if n.Int64 == ss.TombstoneID {
			st.own = optional(c)
			st.w.Quota = st.w.Quota.For(st.own)
		}
	case 1:
		m := stamp(modified.Time)
		st.records[id.StringVal] = record{
			BSO:   ss.BSO{ID: id.StringVal, SortIndex: optional(n), Modified: m, Expiry: expiryOf(m, expiry.Time)},
			bytes: a.Int64,
		}
	case 2:
		st.batch.open, st.batch.expiry = true, stamp(expiry.Time)
	case 3:
		st.batch.total, st.batch.ids = ss.Delta{Records: a.Int64, Bytes: b.Int64}, c.Int64
	case 4:
		st.batch.staged[id.StringVal] = staged{payload: optional(a), ttl: optional(n)}
	case 5:
		st.merged = merged{n.Int64, a.Int64, b.Int64, c.Int64, d.Int64}
	}
	return nil
}

// write runs fn as one transaction, after reading what the statement has.
func (s *Store) write(ctx context.Context, name string, o ss.Owner, w ss.Write, statement spannerdb.Statement, p spannerdb.Params, fn func(*step) error) error {
	if err := checkOwner(o); err != nil {
		return err
	}
	return s.db.Write(ctx, name, func(tx *spannerdb.Tx) error {
		st := &step{s: s, tx: tx, o: o, w: w, coll: unknown, rows: map[int64]collection{}, records: map[string]record{}}
		st.batch.staged = map[string]staged{}
		if w.Collection != "" {
			// A name that this process has not met is looked up in this
			// transaction, so that a write which brings it in comes as a whole
			// before this one or after it.
			var err error
			if st.coll, err = s.find(w.Collection, tx.ForEach); err != nil {
				return err
			}
		}
		params := of(o, p)
		params["coll"], params["now"] = st.coll, ss.At(w.Now.Time()).Time()
		if err := tx.ForEach(statement, params, st.part); err != nil {
			return err
		}
		st.found = st.rows[st.coll]
		st.stamp = ss.NextStamp(w.Now, st.last)
		if err := fn(st); err != nil {
			return err
		}
		return st.send()
	})
}

// send hands over what the step changes, unless Spanner would refuse it.
func (st *step) send() error {
	if st.parent != nil {
		st.changes = append([]*spanner.Mutation{st.parent}, st.changes...)
	}
	if len(st.changes) == 0 {
		return nil
	}
	st.load.User = int64(len(st.o.FxAUID) + len(st.o.FxAKID))
	if n := st.tx.Predicted(); n > budget.Limit {
		return fault.Newf(fault.TooLarge, "the request needs %d mutations: Spanner allows %d in a commit", n, budget.Limit)
	}
	if n := st.load.Bytes(); n > budget.CommitBytes {
		return fault.Newf(fault.TooLarge, "the request needs %d bytes: Spanner allows %d in a commit", n, int64(budget.CommitBytes))
	}
	return st.tx.Buffer(st.changes...)
}

// way is one of the driver's to write a row.
type way func(table string, columns []string, values []any) *spanner.Mutation

// change notes a row to be written; columns are those besides the key.
func (st *step) change(w way, table string, key, columns []string, values ...any) {
	st.changes = append(st.changes, st.row(w, table, key, columns, values...))
}

func (st *step) row(w way, table string, key, columns []string, values ...any) *spanner.Mutation {
	st.tx.Predict(st.s.schema.Write(table, columns...))
	return w(table, append(key, columns...), values)
}

// remove notes a row, with all that is interleaved in it, to be deleted.
func (st *step) remove(table string, key ...any) {
	st.tx.Predict(budget.Delete)
	st.changes = append(st.changes, spanner.Delete(table, spanner.Key(key)))
}

func (st *step) key() []any { return keyOf(st.o, st.coll) }

func bsoKey() []string { return append(userKey(), "bso_id") }

// put merges a record into the collection.
func (st *step) put(u *ss.Update) {
	var old *ss.BSO
	had, there := st.records[u.ID]
	if there {
		old = &had.BSO
	}
	alive := there && old.Live(st.stamp)
	b, delta := ss.Merge(old, u, st.stamp, ss.Direct)
	size := int64(len(b.Payload))
	if alive && !u.Payload.Set {
		// The payload stays where it is; old was read without it.
		size = had.bytes
		st.change(spanner.Update, "bsos", bsoKey(), []string{"sortindex", "modified", "expiry"},
			append(st.key(), b.ID, number(b.SortIndex), b.Modified.Time(), expiresAt(b.Modified, b.Expiry))...)
	} else {
		st.change(spanner.InsertOrUpdate, "bsos", bsoKey(), []string{"sortindex", "payload", "modified", "expiry"},
			append(st.key(), b.ID, number(b.SortIndex), string(b.Payload), b.Modified.Time(), expiresAt(b.Modified, b.Expiry))...)
		st.load.Payload += size
	}
	st.load.Records++
	st.load.IDs += int64(len(b.ID))
	st.delta = st.delta.Add(ss.Delta{Records: delta.Records, Bytes: size - had.bytes})
	if b.Live(st.stamp) {
		st.live += size
	}
	if alive {
		st.live -= had.bytes
	}
	// The same id may come once more, which the protocol refuses.
	st.records[u.ID] = record{BSO: b, bytes: size}
}

// finish moves the stamp of the collection and counts what the step changes,
// where somebody wants to know.
func (st *step) finish() (ss.Written, error) {
	count, err := st.quota()
	if err != nil {
		return ss.Written{}, err
	}
	columns, values := []string{"modified"}, append(st.key(), st.stamp.Time())
	if count.write {
		columns, values = append(columns, "count", "total_bytes"), append(values, count.count, count.bytes)
	}
	st.parent = st.row(spanner.InsertOrUpdate, "user_collections", userKey(), columns, values...)
	return ss.Written{Modified: st.stamp, Previous: st.found.modified, Used: count.used, Quota: st.w.Quota}, nil
}

// counters are what becomes of the collection's.
type counters struct {
	write        bool // they are to be written
	count, bytes spanner.NullInt64
	used         ss.Used // 0 without a quota
}

// quota holds the step against the quota. Without one, counters that are there
// would be wrong from now on, and go.
func (st *step) quota() (counters, error) {
	q := st.w.Quota
	if !q.Limited() {
		return counters{write: st.found.counted}, nil
	}
	used, counted := st.counted()
	if after := used.Add(st.delta.Bytes); counted && !q.Over(after) {
		return st.sum(st.found, after), nil
	}
	live, err := st.recount()
	if err != nil {
		return counters{}, err
	}
	after := live.Add(st.live)
	return st.sum(st.rows[st.coll], after), q.Check(live, after)
}

func (st *step) sum(before collection, used ss.Used) counters {
	return counters{
		write: true,
		count: spanner.NullInt64{Int64: before.count + st.delta.Records, Valid: true},
		bytes: spanner.NullInt64{Int64: before.bytes + st.delta.Bytes, Valid: true},
		used:  used,
	}
}

// counted is the bytes by the counters, unless one of them is not there.
func (st *step) counted() (used ss.Used, counted bool) {
	used.Collection = st.found.bytes
	for id, c := range st.rows {
		if id == ss.TombstoneID {
			continue
		}
		if !c.counted && c.modified != 0 {
			return ss.Used{}, false
		}
		used.User += c.bytes
	}
	return used, true
}

// recount returns the live bytes, and corrects the counters that it finds
// wrong; those of the write's own collection it leaves to the caller.
func (st *step) recount() (live ss.Used, err error) {
	p := of(st.o, spannerdb.Params{"coll": st.coll, "stamp": st.stamp.Time(), "now": st.w.Now.Time()})
	err = st.tx.ForEach(sqlRecount, p, func(r *spanner.Row) error {
		var id, count, bytes, alive int64
		if err := r.Columns(&id, &count, &bytes, &alive); err != nil {
			return err
		}
		live.User += alive
		if id == st.coll {
			live.Collection = alive
		}
		c := st.rows[id]
		wrong := !c.counted || c.count != count || c.bytes != bytes
		c.counted, c.count, c.bytes = true, count, bytes
		if id == ss.TombstoneID {
			return nil
		}
		st.rows[id] = c
		if wrong && id != st.coll {
			st.correct(id)
		}
		return nil
	})
	return live, err
}

// correct writes the counters of a collection as a recount has found them,
// unless the commit has no room for that: then a later write does.
func (st *step) correct(id int64) {
	if c := st.rows[id]; c.row && st.tx.Predicted()+st.rest() < budget.Limit {
		st.change(spanner.Update, "user_collections", userKey(), []string{"count", "total_bytes"}, append(keyOf(st.o, id), c.count, c.bytes)...)
	}
}

// rest is more than what any step predicts after a recount, one correction
// included.
func (st *step) rest() int {
	return 3 * st.s.schema.Write("user_collections", "modified", "count", "total_bytes")
}

// Put implements syncstorage.Store.
func (s *Store) Put(ctx context.Context, o ss.Owner, w ss.Write, u ss.Update) (written ss.Written, err error) {
	if err := s.ensure(ctx, o, w); err != nil {
		return ss.Written{}, err
	}
	err = s.write(ctx, "sync.put", o, w, readRecords, spannerdb.Params{"ids": []string{u.ID}}, func(st *step) error {
		var modified ss.Timestamp
		if had, there := st.records[u.ID]; there && had.Live(st.stamp) {
			modified = had.Modified
		}
		if err := w.If.Check(modified); err != nil {
			return err
		}
		st.put(&u)
		written, err = st.finish()
		return err
	})
	return written, err
}

// Post implements syncstorage.Store.
func (s *Store) Post(ctx context.Context, o ss.Owner, w ss.Write, us []ss.Update) (written ss.Written, err error) {
	if err := s.ensure(ctx, o, w); err != nil {
		return ss.Written{}, err
	}
	err = s.write(ctx, "sync.post", o, w, readRecords, spannerdb.Params{"ids": ids(us)}, func(st *step) error {
		if err := w.If.Check(st.found.modified); err != nil {
			return err
		}
		for i := range us {
			st.put(&us[i])
		}
		written, err = st.finish()
		return err
	})
	return written, err
}

func ids(us []ss.Update) []string {
	all := make([]string, len(us))
	for i := range us {
		all[i] = us[i].ID
	}
	return all
}
