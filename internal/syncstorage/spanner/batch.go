package spanner

import (
	"context"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/budget"
)

func batchKey() []string { return append(userKey(), "batch_id") }

// Append implements syncstorage.Store.
func (s *Store) Append(ctx context.Context, o ss.Owner, w ss.Write, b ss.BatchID, create bool, us []ss.Update, limits ss.BatchLimits) (written ss.Written, err error) {
	if create {
		if err := s.ensure(ctx, o, w); err != nil {
			return ss.Written{}, err
		}
	}
	read := readBatch
	if w.Quota.Limit > 0 {
		read = readBatchQuota
	}
	us = ss.Distinct(us)
	p := spannerdb.Params{"batch": string(b), "ids": ids(us)}
	err = s.write(ctx, "sync.append", o, w, read, p, func(st *step) error {
		if err := w.If.Check(st.found.modified); err != nil {
			return err
		}
		if err := st.openBatch(b, create); err != nil {
			return err
		}
		total := st.batch.total
		for i := range us {
			total = total.Add(st.stage(b, &us[i]))
		}
		if err := limits.Check(total); err != nil {
			return err
		}
		used, err := st.stagedQuota(b, us, total)
		written = ss.Written{Modified: st.found.modified, Previous: st.found.modified, Used: used}
		return err
	})
	return written, err
}

// openBatch finds the batch, or makes it, which needs its collection as its
// parent: until a write has given that a stamp, nobody sees it.
func (st *step) openBatch(b ss.BatchID, create bool) error {
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

// stage adds one record to the batch. Columns that it does not write stay as an
// earlier append left them, which is syncstorage.Stage.
func (st *step) stage(b ss.BatchID, u *ss.Update) (more ss.Delta) {
	var columns []string
	values := append(st.key(), string(b), u.ID)
	set := func(column string, value any) { columns, values = append(columns, column), append(values, value) }
	if u.SortIndex.Set {
		set("sortindex", u.SortIndex.Value)
	}
	if u.Payload.Set {
		set("payload", string(u.Payload.Value))
		more.Bytes = int64(len(u.Payload.Value))
	}
	if u.TTL.Set {
		set("ttl", u.TTL.Value)
	}
	st.load.Records++
	st.load.IDs += int64(len(u.ID))
	st.load.Payload += more.Bytes
	st.change(spanner.InsertOrUpdate, "batch_bsos", append(batchKey(), "batch_bso_id"), columns, values...)
	before, there := st.batch.staged[u.ID]
	if !there {
		more.Records = 1
	}
	if u.Payload.Set {
		more.Bytes -= before.payload.Value
	}
	return more
}

// stagedQuota holds what the user would have, if the batch were committed now,
// against the quota. What the staged records will replace is looked up only
// where it decides: that goes through the whole batch.
func (st *step) stagedQuota(b ss.BatchID, us []ss.Update, total ss.Delta) (used int64, err error) {
	q := st.w.Quota
	if q.Limit <= 0 {
		return 0, nil
	}
	bytes, counted := st.counted()
	if used = bytes + total.Bytes; counted && used <= q.Limit {
		return used, nil
	}
	before, err := st.recount()
	if err != nil {
		return 0, err
	}
	st.correct(st.coll)
	p := of(st.o, spannerdb.Params{"coll": st.coll, "batch": string(b), "stamp": st.stamp.Time()})
	err = st.tx.Each(sqlPending, p, func(r *spanner.Row) error {
		var pending int64
		err := r.Columns(&pending)
		before += pending
		return err
	})
	if err != nil {
		return 0, err
	}
	after := before
	for i := range us {
		after += st.pending(&us[i])
	}
	return after, q.Check(before, after)
}

// pending is by how much staging the record changes what a commit of the batch
// would make of the user's live bytes.
func (st *step) pending(u *ss.Update) int64 {
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

// Commit implements syncstorage.Store. The records of the request are staged
// like the others, in a transaction of their own, so that they cost the commit
// no more than those do; should the commit then be refused, they stay staged,
// where nobody sees them.
func (s *Store) Commit(ctx context.Context, o ss.Owner, w ss.Write, b ss.BatchID, us []ss.Update, limits ss.BatchLimits) (written ss.Written, err error) {
	if len(us) > 0 {
		more := w
		more.Quota = ss.Quota{} // is the commit's affair: as a whole it may take less room than what it replaces
		if _, err := s.Append(ctx, o, more, b, false, us, limits); err != nil {
			return ss.Written{}, err
		}
	}
	read := readCommit
	if w.Quota.Limit > 0 {
		read = readCommitQuota
	}
	err = s.write(ctx, "sync.commit", o, w, read, spannerdb.Params{"batch": string(b)}, func(st *step) error {
		if err := w.If.Check(st.found.modified); err != nil {
			return err
		}
		if err := st.openBatch(b, false); err != nil {
			return err
		}
		if err := limits.Check(st.batch.total); err != nil {
			return err
		}
		written, err = st.drain(b)
		return err
	})
	return written, err
}

// drain moves what is staged to where it is seen, in four steps: the
// collection's row, which must be there before its records; the records; the
// batch, with which goes what was staged; and the counters, under a quota.
func (st *step) drain(b ss.BatchID) (ss.Written, error) {
	total, m, quota := st.batch.total, st.merged, st.w.Quota.Limit > 0
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
	now := st.rows[st.coll] // its counters as they are before, if anybody has counted
	p := of(st.o, spannerdb.Params{
		"coll": st.coll, "batch": string(b), "stamp": st.stamp.Time(), "end": ss.MaxTimestamp.Time(),
		"longest": int64((ss.MaxTimestamp - st.stamp) / 1000), "never": expiresAt(st.stamp, 0), "forever": int64(forever * 1000),
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
		st.tx.Predict(2) // the counters, which go
		parent.Statement, parent.Params = sqlParentCounted, with(count.count, count.bytes)
	}
	changes := []spannerdb.Change{
		parent,
		{Statement: sqlDrain, Params: p, Rows: load.Records},
		{Statement: sqlEndBatch, Params: p, Rows: 1},
	}
	if quota {
		changes = append(changes, spannerdb.Change{Statement: sqlCount, Params: with(count.count, count.bytes), Rows: 1})
	}
	if err := st.tx.Exec(changes...); err != nil {
		return ss.Written{}, err
	}
	return ss.Written{Modified: st.stamp, Previous: st.found.modified, Used: count.used}, nil
}
