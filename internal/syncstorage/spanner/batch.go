package spanner

import (
	"context"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/budget"
)

// batchKey names the key columns.
func batchKey() []string { return append(userKey(), "batch_id") }

// Append implements syncstorage.Store.
func (s *Store) Append(ctx context.Context, o ss.Owner, w ss.Write, p ss.BatchPart) (written ss.Written, err error) {
	if p.Opens {
		if err := s.ensure(ctx, o, w); err != nil {
			return ss.Written{}, err
		}
	}
	read := readBatch
	if w.Quota.Limited() {
		read = readBatchQuota
	}
	us := ss.Distinct(p.Updates)
	params := spannerdb.Params{"batch": string(p.ID), "ids": ids(us)}
	err = s.write(ctx, kind{name: "sync.append", reads: read, params: params}, o, w, func(st *writeState) error {
		if err := w.If.Check(st.found.modified); err != nil {
			return err
		}
		if err := st.openBatch(p.ID, p.Opens); err != nil {
			return err
		}
		total := st.batch.total
		for i := range us {
			total = total.Add(st.stage(p.ID, &us[i]))
		}
		if err := p.Limits.Check(total); err != nil {
			return err
		}
		used, err := st.stagedQuota(p.ID, us, total)
		written = ss.Written{Modified: st.found.modified, Previous: st.found.modified, Used: used, Quota: st.w.Quota}
		return err
	})
	return written, err
}

// openBatch creates a batch, or returns ErrNoBatch if it expired or never existed.
func (st *writeState) openBatch(b ss.BatchID, create bool) error {
	if !create {
		if !st.batch.open || st.batch.expiry <= st.w.Now {
			return ss.ErrNoBatch
		}
		return nil
	}
	if !st.found.row {
		st.change(spanner.Insert, "user_collections", userKey(), []string{"modified"}, append(st.key(), epoch)...)
	}
	expiry := st.w.Now + ss.Timestamp(ss.BatchLifetime.Milliseconds())
	st.change(spanner.Insert, "batches", batchKey(), []string{"expiry"}, append(st.key(), string(b), expiry.Time())...)
	return nil
}

// stage adds an update to the batch and returns the records and bytes it adds.
func (st *writeState) stage(b ss.BatchID, u *ss.Update) ss.Delta {
	var columns []string
	values := append(st.key(), string(b), u.ID)
	set := func(column string, value any) { columns, values = append(columns, column), append(values, value) }
	if u.SortIndex.Set {
		set("sortindex", u.SortIndex.Value)
	}
	if u.Payload.Set {
		set("payload", string(u.Payload.Value))
	}
	if u.TTL.Set {
		set("ttl", u.TTL.Value)
	}
	st.load.Records++
	st.load.IDs += int64(len(u.ID))
	st.load.Payload += int64(len(u.Payload.Value))
	st.change(spanner.InsertOrUpdate, "batch_bsos", append(batchKey(), "batch_bso_id"), columns, values...)
	return st.added(u)
}

// added returns the records and bytes that an update adds to the batch.
func (st *writeState) added(u *ss.Update) (more ss.Delta) {
	before, there := st.batch.staged[u.ID]
	if !there {
		more.Records = 1
	}
	if u.Payload.Set {
		more.Bytes = int64(len(u.Payload.Value)) - before.payload.Value
	}
	return more
}

// stagedQuota returns the live bytes after the commit, or ErrQuota. It counts the user's records only if the counters
// are unknown or above the quota.
func (st *writeState) stagedQuota(b ss.BatchID, us []ss.Update, total ss.Delta) (used ss.Used, err error) {
	q := st.w.Quota
	if !q.Limited() {
		return ss.Used{}, nil
	}
	used, counted := st.counted()
	if used = used.Add(total.Bytes); counted && !q.Over(used) {
		return used, nil
	}
	before, err := st.recount()
	if err != nil {
		return ss.Used{}, err
	}
	st.correct(st.coll)
	p := of(st.o, spannerdb.Params{"coll": st.coll, "batch": string(b), "stamp": st.stamp.Time()})
	err = st.tx.ForEach(sqlPending, p, func(r *spanner.Row) error {
		var pending int64
		err := r.Columns(&pending)
		before = before.Add(pending)
		return err
	})
	if err != nil {
		return ss.Used{}, err
	}
	after := before
	for i := range us {
		after = after.Add(st.pending(&us[i]))
	}
	return after, q.Check(before, after)
}

// pending returns the live bytes that an update will add at the commit.
func (st *writeState) pending(u *ss.Update) int64 {
	var stored int64
	if had, there := st.records[u.ID]; there && had.Live(st.stamp) {
		stored = had.bytes
	}
	change := func(payload, ttl ss.Optional[int64]) int64 {
		switch {
		case ttl.Set && ttl.Value == 0:
			return -stored
		case payload.Set:
			return payload.Value - stored
		}
		return 0
	}
	var before int64
	was, there := st.batch.staged[u.ID]
	if there {
		before = change(was.payload, was.ttl)
	}
	payload, ttl := was.payload, was.ttl
	if u.Payload.Set {
		payload = ss.Some(int64(len(u.Payload.Value)))
	}
	if u.TTL.Set {
		ttl = u.TTL
	}
	return change(payload, ttl) - before
}

// Commit implements syncstorage.Store.
func (s *Store) Commit(ctx context.Context, o ss.Owner, w ss.Write, p ss.BatchPart) (written ss.Written, err error) {
	read := readCommit
	if w.Quota.Limited() {
		read = readCommitQuota
	}
	us := ss.Distinct(p.Updates)
	params := spannerdb.Params{"batch": string(p.ID), "ids": ids(us)}
	err = s.write(ctx, kind{name: "sync.commit", reads: read, params: params}, o, w, func(st *writeState) error {
		if err := w.If.Check(st.found.modified); err != nil {
			return err
		}
		if err := st.openBatch(p.ID, false); err != nil {
			return err
		}
		for i := range us {
			more := st.added(&us[i])
			st.batch.total = st.batch.total.Add(more)
			st.batch.ids += more.Records * int64(len(us[i].ID))
			st.merge(&us[i])
		}
		if err := p.Limits.Check(st.batch.total); err != nil {
			return err
		}
		written, err = st.drain(p.ID, us)
		return err
	})
	return written, err
}

// merge replaces a staged record's part in the totals by the update's.
func (st *writeState) merge(u *ss.Update) {
	was := st.batch.staged[u.ID]
	had, there := st.records[u.ID]
	alive := there && had.Live(st.stamp)
	payload, ttl := was.payload, was.ttl
	if u.Payload.Set {
		payload = ss.Some(int64(len(u.Payload.Value)))
	}
	if u.TTL.Set {
		ttl = u.TTL
	}
	if !st.w.Quota.Limited() {
		if !payload.Set {
			st.merged.new += had.bytes // the batch totals include the other payloads
		}
		return
	}
	size := payload.Value
	if !payload.Set && alive {
		size = had.bytes
	}
	if there {
		st.merged.there++
		st.merged.old += had.bytes
	}
	if alive {
		st.merged.oldLive += had.bytes
	}
	st.merged.new += size
	if !ttl.Set || ttl.Value != 0 {
		st.merged.newLive += size
	}
}

// drain commits a batch with statements, not mutations: the staged contents stay in the database.
func (st *writeState) drain(b ss.BatchID, us []ss.Update) (ss.Written, error) {
	st.whole = []any{st.coll}
	total, m, quota := st.batch.total, st.merged, st.w.Quota.Limited()
	plan := st.s.schema.Commit(quota)
	load := budget.Load{
		Records: int(total.Records), Payload: total.Bytes, IDs: st.batch.ids,
		User: int64(len(st.o.FxAUID) + len(st.o.FxAKID)),
	}
	if quota {
		load.Payload = m.new
		st.delta = ss.Delta{Records: total.Records - m.there, Bytes: m.new - m.old}
		st.live = m.newLive - m.oldLive
	} else {
		load.Payload += m.new
	}
	if err := plan.Check(load); err != nil {
		return ss.Written{}, err
	}
	st.tx.Predict(plan.Mutations(load.Records))
	count, err := st.quota()
	if err != nil {
		return ss.Written{}, err
	}
	now := st.rows[st.coll]
	p := of(st.o, spannerdb.Params{
		"coll": st.coll, "batch": string(b), "stamp": st.stamp.Time(), "end": ss.MaxTimestamp.Time(),
		"longest": int64((ss.MaxTimestamp - st.stamp) / 1000), "never": expiresAt(st.stamp, 0), "forever": int64(forever * 1000),
		"ids": ids(us),
	})
	with := func(count, bytes spanner.NullInt64) spannerdb.Params {
		q := of(st.o, p)
		q["count"], q["bytes"] = count, bytes
		return q
	}
	parent := spannerdb.Change{Statement: sqlParent, Params: p, Rows: 1}
	switch {
	case quota:
		parent.Statement = sqlParentCounted
		parent.Params = with(spanner.NullInt64{Int64: now.count, Valid: true}, spanner.NullInt64{Int64: now.bytes, Valid: true})
	case count.write:
		st.tx.Predict(2)
		parent.Statement, parent.Params = sqlParentCounted, with(count.count, count.bytes)
	}
	changes := []spannerdb.Change{parent, {Statement: sqlDrain, Params: p, Rows: load.Records - len(us)}}
	for i, records := range messages(us) {
		if i > 0 {
			if err := st.tx.Exec(changes...); err != nil {
				return ss.Written{}, err
			}
			changes = nil
		}
		with := of(st.o, p)
		with["records"] = records
		changes = append(changes, spannerdb.Change{Statement: sqlMerge, Params: with, Rows: len(records)})
	}
	changes = append(changes, spannerdb.Change{Statement: sqlEndBatch, Params: p, Rows: 1})
	if quota {
		changes = append(changes, spannerdb.Change{Statement: sqlCount, Params: with(count.count, count.bytes), Rows: 1})
	}
	if err := st.tx.Exec(changes...); err != nil {
		return ss.Written{}, err
	}
	return ss.Written{Modified: st.stamp, Previous: st.found.modified, Used: count.used, Quota: st.w.Quota}, nil
}

// sent is an update as a parameter.
type sent struct {
	ID        string             `spanner:"id"`
	SortIndex spanner.NullInt64  `spanner:"sortindex"`
	Payload   spanner.NullString `spanner:"payload"`
	TTL       spanner.NullInt64  `spanner:"ttl"`
}

// messageBytes limits payloads per message. Spanner accepts 10 MB, and more with a commit.
const messageBytes = 8_000_000

// messages splits updates into statements below messageBytes.
func messages(us []ss.Update) (all [][]sent) {
	size := 0
	for i := range us {
		u := &us[i]
		if size += len(u.Payload.Value); i == 0 || size > messageBytes {
			all, size = append(all, nil), len(u.Payload.Value)
		}
		last := &all[len(all)-1]
		*last = append(*last, sent{
			ID: u.ID, SortIndex: number(u.SortIndex), TTL: number(u.TTL),
			Payload: spanner.NullString{StringVal: string(u.Payload.Value), Valid: u.Payload.Set},
		})
	}
	return all
}
