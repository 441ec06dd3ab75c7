package spanner

import (
	"context"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/budget"
)

// writeState is a write in a transaction: it collects mutations, which Spanner applies at the commit. The transaction
// may run again, with a new state.
type writeState struct {
	s  *Store
	tx *spannerdb.Tx
	o  ss.Owner
	w  ss.Write
	// the collection's ID, or unknown
	coll int64

	rows    map[int64]collection
	own     ss.Optional[int64]
	last    ss.Timestamp
	found   collection
	stamp   ss.Timestamp
	records map[string]record
	batch   batch
	merged  merged
	control control

	parent  *spanner.Mutation // collection's row, to be written before its records
	changes []*spanner.Mutation
	load    budget.Load
	delta   ss.Delta
	live    int64
	whole   []any // key of the user or collection that changes as a whole; nil if only records change
}

type control struct{ readOnly, logged bool }

type collection struct {
	row      bool
	modified ss.Timestamp // 0 if there is no collection, or if it contains only open batches
	counted  bool         // count and bytes are not NULL
	count    int64
	bytes    int64
}

type record struct {
	ss.BSO
	bytes int64
}

type batch struct {
	open   bool
	expiry ss.Timestamp
	total  ss.Delta
	ids    int64
	staged map[string]staged
}

type staged struct {
	payload ss.Optional[int64]
	ttl     ss.Optional[int64]
}

type merged struct {
	there    int64
	old, new int64 // bytes of these records, and of their replacements
	oldLive  int64
	newLive  int64
}

// part reads a row that read returned.
func (st *writeState) part(r *spanner.Row) error {
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
	case 6:
		st.control = control{readOnly: n.Int64 > 0, logged: a.Int64 > 0}
	}
	return nil
}

// kind describes a write: its name for metrics and its reads.
type kind struct {
	name   string
	reads  spannerdb.Statement
	params spannerdb.Params
}

// write runs fn in a transaction, after reading. Errors from fn roll back. fn may run several times.
func (s *Store) write(ctx context.Context, k kind, o ss.Owner, w ss.Write, fn func(*writeState) error) error {
	if err := checkOwner(o); err != nil {
		return err
	}
	return s.db.Write(ctx, k.name, func(tx *spannerdb.Tx) error {
		st := &writeState{s: s, tx: tx, o: o, w: w, coll: unknown, rows: map[int64]collection{}, records: map[string]record{}}
		st.batch.staged = map[string]staged{}
		if w.Collection != "" {
			// Look up the name in this transaction, so that a concurrent write that creates it is entirely before or
			// after this write.
			var err error
			if st.coll, err = s.find(w.Collection, tx.ForEach); err != nil {
				return err
			}
		}
		params := of(o, k.params)
		params["coll"], params["now"], params["shard"] = st.coll, ss.At(w.Now.Time()).Time(), spannerdb.Shard(o.FxAUID, o.FxAKID)
		if err := tx.ForEach(k.reads, params, st.part); err != nil {
			return err
		}
		if st.control.readOnly {
			return spannerdb.ErrReadOnly
		}
		st.found = st.rows[st.coll]
		st.stamp = ss.NextStamp(w.Now, st.last)
		if err := fn(st); err != nil {
			return err
		}
		if st.control.logged {
			if err := st.log(k.params); err != nil {
				return err
			}
		}
		return st.send()
	})
}

// log writes the keys that changed, while holdfast copy needs them.
func (st *writeState) log(p spannerdb.Params) error {
	if st.tx.Predicted() == 0 {
		return nil
	}
	uid := st.o.UID
	if uid == 0 { // from Owners
		return errcode.New(errcode.Unavailable, "holdfast copy is running, and needs the user's UID to notice the change: try again when it has ended")
	}
	keys := map[string][][]any{"user_collections": {{uid, int64(ss.TombstoneID)}}}
	add := func(table string, key ...any) { keys[table] = append(keys[table], key) }
	if st.coll != unknown {
		add("collections", st.coll)
		add("user_collections", uid, st.coll)
	}
	names, _ := p["ids"].([]string)
	batch, ofBatch := p["batch"].(string)
	if st.whole == nil && len(names) > loggedRecords {
		st.whole = []any{st.coll}
	}
	switch {
	case st.whole != nil:
		key := append([]any{uid}, st.whole...)
		for _, table := range []string{"bsos", "batches", "batch_bsos"} {
			add(table, key...)
		}
		if len(key) == 1 {
			add("user_collections", key...)
		}
	case ofBatch:
		add("batches", uid, st.coll, batch)
		for _, id := range names {
			add("batch_bsos", uid, st.coll, batch, id)
		}
	default:
		for _, id := range names {
			add("bsos", uid, st.coll, id)
		}
	}
	return st.tx.LogChanges("syncstorage", keys)
}

// loggedRecords keeps log entries below 2,621,440 characters. If more records change, the whole collection is logged.
const loggedRecords = 5000

// send hands the mutations to the transaction. The collection's row comes first, because interleaved rows need it.
func (st *writeState) send() error {
	if st.parent != nil {
		st.changes = append([]*spanner.Mutation{st.parent}, st.changes...)
	}
	if len(st.changes) == 0 {
		return nil
	}
	st.load.User = int64(len(st.o.FxAUID) + len(st.o.FxAKID))
	if n := st.tx.Predicted(); n > budget.Limit {
		return errcode.Newf(errcode.TooLarge, "the request needs %d mutations: Spanner allows %d in a commit", n, budget.Limit)
	}
	if n := st.load.Bytes(); n > budget.CommitBytes {
		return errcode.Newf(errcode.TooLarge, "the request needs %d bytes: Spanner allows %d in a commit", n, int64(budget.CommitBytes))
	}
	return st.tx.Buffer(st.changes...)
}

// mutate is spanner.Insert, spanner.Update or spanner.InsertOrUpdate.
type mutate func(table string, columns []string, values []any) *spanner.Mutation

// change adds a mutation.
func (st *writeState) change(w mutate, table string, key, columns []string, values ...any) {
	st.changes = append(st.changes, st.row(w, table, key, columns, values...))
}

// row returns a mutation and counts it against the budget.
func (st *writeState) row(w mutate, table string, key, columns []string, values ...any) *spanner.Mutation {
	st.tx.Predict(st.s.schema.Write(table, columns...))
	return w(table, append(key, columns...), values)
}

// remove adds a deletion of a row.
func (st *writeState) remove(table string, key ...any) {
	st.tx.Predict(budget.Delete)
	st.changes = append(st.changes, spanner.Delete(table, spanner.Key(key)))
}

// key returns the values for userKey.
func (st *writeState) key() []any { return keyOf(st.o, st.coll) }

// bsoKey names the key columns of bsos.
func bsoKey() []string { return append(userKey(), "bso_id") }

// put merges an update with the stored record and writes it.
func (st *writeState) put(u *ss.Update) {
	var old *ss.BSO
	had, there := st.records[u.ID]
	if there {
		old = &had.BSO
	}
	alive := there && old.Live(st.stamp)
	b, delta := ss.Merge(old, u, st.stamp, ss.Direct)
	size := int64(len(b.Payload))
	if alive && !u.Payload.Set {
		// The payload stays, but old was read without it.
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
	// This is for a client that sends an ID twice, which the protocol forbids.
	st.records[u.ID] = record{BSO: b, bytes: size}
}

// finish checks the quota and writes the collection's row.
func (st *writeState) finish() (ss.Written, error) {
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

type counters struct {
	write        bool
	count, bytes spanner.NullInt64
	used         ss.Used
}

// quota checks the quota. If there is no quota, it sets the counters to NULL, because this write makes them wrong.
func (st *writeState) quota() (counters, error) {
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

// sum returns the counters after the write.
func (st *writeState) sum(before collection, used ss.Used) counters {
	return counters{
		write: true,
		count: spanner.NullInt64{Int64: before.count + st.delta.Records, Valid: true},
		bytes: spanner.NullInt64{Int64: before.bytes + st.delta.Bytes, Valid: true},
		used:  used,
	}
}

// counted returns the user's bytes according to the counters, or false if a counter is unknown.
func (st *writeState) counted() (used ss.Used, counted bool) {
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

// recount counts the user's live bytes, and corrects the counters on the way.
func (st *writeState) recount() (live ss.Used, err error) {
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
		differs := !c.counted || c.count != count || c.bytes != bytes
		c.counted, c.count, c.bytes = true, count, bytes
		if id == ss.TombstoneID {
			return nil
		}
		st.rows[id] = c
		if differs && id != st.coll {
			st.correct(id)
		}
		return nil
	})
	return live, err
}

// correct writes recounted counters if the commit has mutations left. Otherwise a later write corrects them.
func (st *writeState) correct(id int64) {
	if c := st.rows[id]; c.row && st.tx.Predicted()+st.rest() < budget.Limit {
		st.change(spanner.Update, "user_collections", userKey(), []string{"count", "total_bytes"}, append(keyOf(st.o, id), c.count, c.bytes)...)
	}
}

// rest returns more mutations than any write predicts after a recount, including one correction.
func (st *writeState) rest() int {
	return 3 * st.s.schema.Write("user_collections", "modified", "count", "total_bytes")
}

// Put implements syncstorage.Store.
func (s *Store) Put(ctx context.Context, o ss.Owner, w ss.Write, u ss.Update) (written ss.Written, err error) {
	if err := s.ensure(ctx, o, w); err != nil {
		return ss.Written{}, err
	}
	err = s.write(ctx, kind{name: "sync.put", reads: readRecords, params: spannerdb.Params{"ids": []string{u.ID}}}, o, w, func(st *writeState) error {
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
	err = s.write(ctx, kind{name: "sync.post", reads: readRecords, params: spannerdb.Params{"ids": ids(us)}}, o, w, func(st *writeState) error {
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

// ids returns the updates' IDs.
func ids(us []ss.Update) []string {
	all := make([]string, len(us))
	for i := range us {
		all[i] = us[i].ID
	}
	return all
}
