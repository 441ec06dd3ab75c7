package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
)

// Claim serializes claims, so that no two claims choose the same rows.
func (s *Store) Claim(ctx context.Context, c buckets.Claim) (all []buckets.Garbage, err error) {
	err = s.db.Tx(ctx, "buckets.claim_garbage", func(tx *pgdb.Tx) error {
		all = nil
		if _, err := tx.QueryRow(sqlLockHolds, nil, new(int)); err != nil {
			return err
		}
		var until pgtype.Timestamptz
		if _, err := tx.QueryRow(sqlHeld, []any{at(c.Now)}, &until); err != nil || until.Valid {
			return err
		}
		var ids, rows []string
		var id, row string
		err := tx.ForEach(sqlGarbage, []any{at(c.Before), at(c.Now), c.Limit}, func() error {
			ids, rows = append(ids, id), append(rows, row)
			return nil
		}, &id, &row)
		if err != nil || len(ids) == 0 {
			return err
		}
		if _, err := tx.Exec(sqlClaim, c.ID, at(c.Expires), ids, rows, at(c.Now)); err != nil {
			return err
		}
		g := scanGarbage{all: &all}
		return tx.ForEach(sqlTaken, []any{c.ID, ids, rows, c.Objects}, g.add, g.dest()...)
	})
	buckets.SortGarbage(all)
	return all, err
}

// Claimed implements buckets.Collector.
func (s *Store) Claimed(ctx context.Context, claim string, now buckets.Moment, objects bool) (all []buckets.Garbage, err error) {
	if _, err := buckets.ParseUUID(claim); err != nil {
		return nil, nil //nolint:nilerr // it is not the ID of a claim
	}
	g := scanGarbage{all: &all}
	err = s.db.ForEach(ctx, sqlClaimed, []any{claim, at(now), objects}, func() { all = nil }, g.add, g.dest()...)
	buckets.SortGarbage(all)
	return all, err
}

// scanGarbage collects rows of garbage in all.
type scanGarbage struct {
	all *[]buckets.Garbage

	owner, bucket, name, id, upload string
	length                          int64
	sharks                          []string
	deleted                         pgtype.Timestamptz
	object                          []*string
}

// dest returns the destinations in the order of the statement's columns.
func (g *scanGarbage) dest() []any {
	return []any{&g.owner, &g.bucket, &g.name, &g.id, &g.length, &g.sharks, &g.upload, &g.deleted, &g.object}
}

// add decodes the last row read.
func (g *scanGarbage) add() error {
	made := buckets.Garbage{
		Owner: buckets.AccountID(g.owner), Bucket: buckets.BucketID(g.bucket), Name: g.name, ID: buckets.ObjectID(g.id),
		Length: g.length, Sharks: g.sharks, Upload: buckets.UploadID(g.upload), Deleted: momentOf(g.deleted),
	}
	g.sharks = nil
	var err error
	if g.object != nil {
		made.Object, err = deletedObject(g.object, &made)
		g.object = nil
	}
	*g.all = append(*g.all, made)
	return err
}

// deletedObject decodes deletedColumns.
func deletedObject(columns []*string, g *buckets.Garbage) (*buckets.Object, error) {
	r := textRow{columns: columns}
	o := &buckets.Object{
		Name: g.Name, Created: buckets.Moment(r.number(deletedCreated)), Modified: buckets.Moment(r.number(deletedModified)),
		Creator: buckets.AccountID(r.text(deletedCreator)), ContentType: r.text(deletedType),
		Body:       buckets.Body{ID: g.ID, Length: g.Length, MD5: r.bytes(deletedMD5), Sharks: g.Sharks},
		Properties: r.properties(deletedProperties),
	}
	r.json(deletedHeaders, &o.Headers)
	r.json(deletedRoles, &o.Roles)
	return o, r.err
}

// Unclaim implements buckets.Collector.
func (s *Store) Unclaim(ctx context.Context, claim string) error {
	_, err := s.db.Exec(ctx, sqlUnclaim, claim)
	return err
}

// Waiting implements buckets.Collector.
func (s *Store) Waiting(ctx context.Context, before, now buckets.Moment) (w buckets.Waiting, err error) {
	var next, until pgtype.Timestamptz
	_, err = s.db.QueryRow(ctx, sqlWaiting, []any{at(before), at(now)}, &w.Rows, &w.Young, &next, &w.Claimed, &until)
	w.Next, w.Until = momentOf(next), momentOf(until)
	return w, err
}

// Hold implements buckets.Holds.
func (s *Store) Hold(ctx context.Context, id string, now, expires buckets.Moment) error {
	return s.db.Tx(ctx, "buckets.hold_garbage", func(tx *pgdb.Tx) error {
		if _, err := tx.QueryRow(sqlLockHolds, nil, new(int)); err != nil {
			return err
		}
		if _, err := tx.Exec(sqlEndHolds, at(now)); err != nil {
			return err
		}
		_, err := tx.Exec(sqlHold, id, at(expires))
		return err
	})
}

// Release implements buckets.Holds.
func (s *Store) Release(ctx context.Context, id string) error {
	_, err := s.db.Exec(ctx, sqlReleaseHold, id)
	return err
}

// Held implements buckets.Holds.
func (s *Store) Held(ctx context.Context, now buckets.Moment) (buckets.Moment, error) {
	var until pgtype.Timestamptz
	_, err := s.db.QueryRow(ctx, sqlHeld, []any{at(now)}, &until)
	return momentOf(until), err
}

// Remove implements buckets.Collector.
func (s *Store) Remove(ctx context.Context, claim string, garbage []buckets.Garbage) (n int, err error) {
	byOwner := map[buckets.AccountID][]*buckets.Garbage{}
	for i := range garbage {
		byOwner[garbage[i].Owner] = append(byOwner[garbage[i].Owner], &garbage[i])
	}
	if len(byOwner) == 0 {
		return 0, nil
	}
	err = s.db.Tx(ctx, "buckets.remove_garbage", func(tx *pgdb.Tx) error {
		n = 0
		for _, owner := range slices.Sorted(maps.Keys(byOwner)) {
			r := removal{owner: owner, claim: claim}
			for _, g := range byOwner[owner] {
				r.buckets, r.ids = append(r.buckets, string(g.Bucket)), append(r.ids, string(g.ID))
				r.names, r.uploads = append(r.names, g.Name), append(r.uploads, string(g.Upload))
			}
			var removed int
			if _, err := tx.QueryRow(sqlRemove.Statement, sqlRemove.Args(r), &removed); err != nil {
				return err
			}
			n += removed
		}
		return nil
	})
	return n, err
}

// removal holds the parameters for the removal of garbage rows: an element per row.
type removal struct {
	owner                        buckets.AccountID
	claim                        string
	buckets, ids, names, uploads []string
}

// args names and orders the parameters for pgdb.
func (r removal) args() []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "p_owner uuid", Value: string(r.owner)},
		{Param: "p_claim uuid", Value: r.claim},
		{Param: "p_buckets text[]::uuid[]", Value: r.buckets},
		{Param: "p_ids text[]::uuid[]", Value: r.ids},
		{Param: "p_names text[]", Value: r.names},
		{Param: "p_uploads text[]", Value: r.uploads},
	}
}

// DeletedBuckets implements buckets.Collector.
func (s *Store) DeletedBuckets(ctx context.Context, before buckets.Moment, limit int) (all []buckets.DeletedBucket, err error) {
	var id, name, owner string
	var created, deleted pgtype.Timestamptz
	err = s.db.ForEach(ctx, sqlDeletedBuckets, []any{at(before), limit}, func() { all = nil }, func() error {
		var b buckets.DeletedBucket
		b.ID, b.Name, b.Owner = buckets.BucketID(id), name, buckets.AccountID(owner)
		b.Created, b.Deleted = momentOf(created), momentOf(deleted)
		all = append(all, b)
		return nil
	}, &id, &name, &owner, &created, &deleted)
	return all, err
}

// RemoveBucket implements buckets.Collector.
func (s *Store) RemoveBucket(ctx context.Context, b buckets.DeletedBucket, now buckets.Moment, limit int) (done bool, err error) {
	if _, err := s.db.Exec(ctx, sqlRemoveLifecycle, string(b.Owner), string(b.ID)); err != nil {
		return false, err
	}
	aborted, err := s.run(ctx, sqlRemoveBucket, string(b.Owner), string(b.ID), b.Name, at(now), limit)
	return err == nil && aborted == 0, err
}

// Backlog implements buckets.Collector.
func (s *Store) Backlog(ctx context.Context) (rows, bytes int64, oldest buckets.Moment, err error) {
	var first pgtype.Timestamptz
	_, err = s.db.QueryRow(ctx, sqlBacklog, nil, &rows, &bytes, &first)
	return rows, bytes, momentOf(first), err
}

// References reads each account from its own snapshot on Citus.
func (s *Store) References(ctx context.Context, fn func(buckets.Reference) error) error {
	rows, err := s.db.Patient(longestScan).Stream(ctx, sqlReferences)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var owner, bucket, id string
		var upload *string
		var ref buckets.Reference
		var sums sums
		err := rows.Scan(sums.dest(&owner, &bucket, &ref.Name, &upload, &ref.Number, &ref.Garbage, &id, &ref.Length, &ref.MD5, &ref.Sharks)...)
		if err != nil {
			return err
		}
		ref.Owner, ref.Bucket, ref.ID = buckets.AccountID(owner), buckets.BucketID(bucket), buckets.ObjectID(id)
		if upload != nil {
			ref.Upload = buckets.UploadID(*upload)
		}
		sums.set(&ref.Body)
		if err := fn(ref); err != nil {
			return err
		}
	}
	return rows.Err()
}

// SetSharks implements buckets.References.
func (s *Store) SetSharks(ctx context.Context, r buckets.Reference, sharks []string) (bool, error) {
	if err := r.Owner.Check(); err != nil {
		return false, err
	}
	n, err := s.run(ctx, sqlSetSharks.Statement, sqlSetSharks.Args(placement{r, sharks})...)
	return n == 1, err
}

// placement holds the parameters that change a body's nodes, if they are still p.Sharks.
type placement struct {
	buckets.Reference
	is []string
}

// args names and orders the parameters for pgdb.
func (p placement) args() []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "p_owner uuid", Value: string(p.Owner)},
		{Param: "p_bucket_id uuid", Value: string(p.Bucket)},
		{Param: "p_name text", Value: p.Name},
		{Param: "p_upload uuid", Value: orNull(p.Upload)},
		{Param: "p_number integer", Value: p.Number},
		{Param: "p_garbage boolean", Value: p.Garbage},
		{Param: "p_id uuid", Value: string(p.ID)},
		{Param: "p_was text[]", Value: p.Sharks},
		{Param: "p_is text[]", Value: listOrNil(p.is)},
	}
}

// SetFrames implements buckets.References.
func (s *Store) SetFrames(ctx context.Context, r buckets.Reference, f buckets.Frames) (bool, error) {
	if err := r.Owner.Check(); err != nil {
		return false, err
	}
	st, args := sqlFrameObject, []any{string(r.Owner), string(r.Bucket), r.Name, string(r.ID), int64(f.CRC64NVME), int64(f.ID)}
	if r.Upload != "" {
		st, args = sqlFramePart, []any{string(r.Owner), string(r.Upload), r.Number, string(r.ID), int64(f.CRC64NVME), int64(f.ID)}
	}
	n, err := s.db.Exec(ctx, st, args...)
	if n == 0 && err == nil && r.Upload == "" {
		n, err = s.db.Exec(ctx, sqlFrameVersion, args...)
	}
	return n == 1, err
}
