package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
)

// Claim implements buckets.Collector. Workers that claim at the same time may choose the
// same rows; then one of them gets these.
func (s *Store) Claim(ctx context.Context, c buckets.Claim) (all []buckets.Garbage, err error) {
	var ids, rows []string
	var id, garbage string
	err = s.db.ForEach(ctx, sqlGarbage, []any{at(c.Before), at(c.Now), c.Limit}, func() { ids, rows = nil, nil }, func() error {
		ids, rows = append(ids, id), append(rows, garbage)
		return nil
	}, &id, &garbage)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var owner, bucket, name, upload string
	var length int64
	var sharks []string
	var deleted pgtype.Timestamptz
	err = s.db.ForEach(ctx, sqlClaim, []any{c.ID, at(c.Expires), ids, rows, at(c.Now)}, func() { all = nil }, func() error {
		all = append(all, buckets.Garbage{
			Owner: buckets.AccountID(owner), Bucket: buckets.BucketID(bucket), Name: name, ID: buckets.ObjectID(id),
			Length: length, Sharks: sharks, Upload: buckets.UploadID(upload), Deleted: momentOf(deleted),
		})
		sharks = nil
		return nil
	}, &owner, &bucket, &name, &id, &length, &sharks, &upload, &deleted)
	buckets.SortGarbage(all)
	return all, err
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
			var ids, rows, names, uploads []string
			for _, g := range byOwner[owner] {
				ids, rows = append(ids, string(g.Bucket)), append(rows, string(g.ID))
				names, uploads = append(names, g.Name), append(uploads, string(g.Upload))
			}
			var removed int
			if _, err := tx.QueryRow(sqlRemove, []any{string(owner), claim, ids, rows, names, uploads}, &removed); err != nil {
				return err
			}
			n += removed
		}
		return nil
	})
	return n, err
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
	aborted, err := s.run(ctx, sqlRemoveBucket, string(b.Owner), string(b.ID), b.Name, at(now), limit)
	return err == nil && aborted == 0, err
}

// Backlog implements buckets.Collector.
func (s *Store) Backlog(ctx context.Context) (rows, bytes int64, oldest buckets.Moment, err error) {
	var first pgtype.Timestamptz
	_, err = s.db.QueryRow(ctx, sqlBacklog, nil, &rows, &bytes, &first)
	return rows, bytes, momentOf(first), err
}

// References implements buckets.References. On Citus the bodies of an account are from
// one snapshot.
func (s *Store) References(ctx context.Context, fn func(buckets.Reference) error) error {
	rows, err := s.db.Stream(ctx, sqlReferences)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var owner, bucket, id string
		var upload *string
		var ref buckets.Reference
		err := rows.Scan(&owner, &bucket, &ref.Name, &upload, &ref.Number, &ref.Garbage, &id, &ref.Length, &ref.MD5, &ref.Sharks)
		if err != nil {
			return err
		}
		ref.Owner, ref.Bucket, ref.ID = buckets.AccountID(owner), buckets.BucketID(bucket), buckets.ObjectID(id)
		if upload != nil {
			ref.Upload = buckets.UploadID(*upload)
		}
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
	var n int64
	var err error
	switch {
	case r.Upload != "":
		n, err = s.db.Exec(ctx, sqlMovePart, string(r.Owner), string(r.Upload), r.Number, string(r.ID), r.Sharks, sharks)
	case r.Garbage:
		n, err = s.db.Exec(ctx, sqlMoveGarbage, string(r.Owner), string(r.Bucket), r.Name, string(r.ID), r.Sharks, sharks)
	default:
		n, err = s.db.Exec(ctx, sqlMoveObject, string(r.Owner), string(r.Bucket), r.Name, string(r.ID), r.Sharks, sharks)
	}
	return n > 0, err
}
