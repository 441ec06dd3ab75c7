package postgres

import (
	"context"

	"holdfast/internal/db/pgdb"
	ss "holdfast/internal/syncstorage"
)

// Append implements syncstorage.Store.
func (s *Store) Append(ctx context.Context, o ss.Owner, w ss.Write, p ss.BatchPart) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	find := s.lookup
	if p.Opens {
		find = func(ctx context.Context, _ string) (int32, error) { return s.resolve(ctx, o, w) }
	}
	coll, err := find(ctx, w.Collection)
	if err != nil {
		return ss.Written{}, err
	}
	return s.store(ctx, sqlAppend.Statement, &w, sqlAppend.Args(appending{target{o, coll, w}, p}))
}

// Commit implements syncstorage.Store.
func (s *Store) Commit(ctx context.Context, o ss.Owner, w ss.Write, p ss.BatchPart) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	coll, err := s.lookup(ctx, w.Collection)
	if err != nil {
		return ss.Written{}, err
	}
	return s.store(ctx, sqlCommit.Statement, &w, sqlCommit.Args(commit{target{o, coll, w}, p}))
}

// appending holds the parameters for a function that appends to a batch.
type appending struct {
	target
	part ss.BatchPart
}

// write encodes the parameters in binary.
func (p appending) write(a *pgdb.Args) {
	p.collection(a)
	a.Text("p_batch", string(p.part.ID))
	a.Boolean("p_create", p.part.Opens)
	a.Timestamp("p_expiry", (p.Now + ss.Timestamp(ss.BatchLifetime.Milliseconds())).Time())
	staged(a, &p.part)
	p.condition(a)
	p.limits(a)
}

// commit holds the parameters for a function that commits a batch.
type commit struct {
	target
	part ss.BatchPart
}

// write encodes the parameters in binary.
func (c commit) write(a *pgdb.Args) {
	c.collection(a)
	a.Text("p_batch", string(c.part.ID))
	staged(a, &c.part)
	c.condition(a)
	c.limits(a)
}

// staged encodes a request's updates and the limits for its batch.
func staged(a *pgdb.Args, p *ss.BatchPart) {
	updates(a, p.Updates)
	a.Bigint("p_max_records", p.Limits.Records)
	a.Bigint("p_max_bytes", p.Limits.Bytes)
}
