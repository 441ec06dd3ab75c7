package postgres

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
)

// bucketRow holds the destinations for bucketColumns.
type bucketRow struct {
	id, name, owner string
	created         pgtype.Timestamptz
	settings        *string
	versioning      int16
	lock            *string
}

// dest returns the destinations in the order of bucketColumns.
func (r *bucketRow) dest() []any {
	return []any{&r.id, &r.name, &r.owner, &r.created, &r.settings, &r.versioning, &r.lock}
}

// bucket decodes the last row read.
func (r *bucketRow) bucket() (buckets.Bucket, error) {
	b := buckets.Bucket{
		BucketRef: buckets.BucketRef{Name: r.name, ID: buckets.BucketID(r.id)},
		Owner:     buckets.AccountID(r.owner), Created: momentOf(r.created), Versioning: buckets.Versioning(r.versioning),
	}
	if r.settings != nil {
		if err := json.Unmarshal([]byte(*r.settings), &b.Settings); err != nil {
			return b, errcode.Wrap(errcode.Internal, "decode the settings of a bucket", err)
		}
	}
	var err error
	b.Lock, err = bucketLock(r.lock)
	return b, err
}

// bucketLock decodes a bucket's object lock. NULL means off; an empty object, on without a default retention.
func bucketLock(text *string) (l buckets.BucketLock, err error) {
	if text == nil {
		return l, nil
	}
	if err := json.Unmarshal([]byte(*text), &l); err != nil {
		return l, errcode.Wrap(errcode.Internal, "decode the object lock of a bucket", err)
	}
	l.Enabled = true
	return l, nil
}

// readBuckets reads all buckets that a statement returns.
func (s *Store) readBuckets(ctx context.Context, st pgdb.Statement, args ...any) (all []buckets.Bucket, err error) {
	var r bucketRow
	err = s.db.ForEach(ctx, st, args, func() { all = nil }, func() error {
		b, err := r.bucket()
		all = append(all, b)
		return err
	}, r.dest()...)
	return all, err
}

// CreateBucket implements buckets.Buckets.
func (s *Store) CreateBucket(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, now buckets.Moment) (buckets.Bucket, error) {
	if err := owner.Check(); err != nil {
		return buckets.Bucket{}, err
	}
	for {
		var n int64
		err := s.db.Tx(ctx, "buckets.create_bucket_in_account", func(tx *pgdb.Tx) error {
			if err := shareAccount(tx, owner); err != nil {
				return err
			}
			var err error
			n, err = tx.Exec(sqlCreateBucket, string(owner), b.Name, string(b.ID), at(now))
			return err
		})
		if err != nil {
			return buckets.Bucket{}, err
		}
		if n > 0 {
			return buckets.Bucket{BucketRef: b, Owner: owner, Created: now}, nil
		}
		matches, err := s.readBuckets(ctx, sqlBucket, string(owner), b.Name)
		if err != nil {
			return buckets.Bucket{}, err
		}
		if len(matches) > 0 { // otherwise deleted concurrently
			return matches[0], buckets.ErrBucketExists
		}
	}
}

// Bucket implements lifecycle.Store.
func (s *Store) Bucket(ctx context.Context, owner buckets.AccountID, name string) (buckets.Bucket, error) {
	if err := owner.Check(); err != nil {
		return buckets.Bucket{}, err
	}
	matches, err := s.readBuckets(ctx, sqlBucket, string(owner), name)
	if err != nil {
		return buckets.Bucket{}, err
	}
	if len(matches) == 0 {
		return buckets.Bucket{}, buckets.ErrNoBucket
	}
	return matches[0], nil
}

// Buckets implements buckets.Buckets.
func (s *Store) Buckets(ctx context.Context, owner buckets.AccountID, q buckets.BucketQuery) (page []buckets.Bucket, more bool, err error) {
	if err := owner.Check(); err != nil {
		return nil, false, err
	}
	var r bucketRow
	var l *buckets.BucketLister
	done := false
	err = s.db.ForEach(ctx, sqlListBuckets, []any{string(owner), q.After, q.Prefix, q.Limit + 1}, func() {
		l, done = buckets.NewBucketLister(q), false
	}, func() error {
		if done {
			return nil // more rows than fit into q.Bytes
		}
		b, err := r.bucket()
		if err == nil {
			done = l.Add(b)
		}
		return err
	}, r.dest()...)
	if err != nil {
		return nil, false, err
	}
	page, more = l.Page()
	return page, more, nil
}

// FindBuckets implements buckets.Finder.
func (s *Store) FindBuckets(ctx context.Context, prefix string, limit int) ([]buckets.Bucket, error) {
	return s.readBuckets(ctx, sqlFindBuckets, prefix, prefix+afterNames, limit)
}

const afterNames = "~"

// SetBucket implements buckets.Buckets.
func (s *Store) SetBucket(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, c buckets.SettingsChange) error {
	if err := owner.Check(); err != nil {
		return err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode the settings of a bucket", err)
	}
	args := []any{string(owner), b.Name, string(b.ID), string(text), (*int64)(c.LifecycleWas)}
	switch {
	case c.ChangesAccess():
		return s.setAccess(ctx, owner, b, c, args)
	case c.Events == nil:
		_, err = s.run(ctx, sqlSetSettings, args...)
		return err
	}
	// No object is named "". Locking this name keeps the events in the order of the changes.
	return s.notifying(ctx, "buckets.set_bucket_in_steps", objectKey{owner, b, ""}, func(tx *pgdb.Tx) ([]buckets.Event, error) {
		var result int64
		_, err := tx.QueryRow(sqlSetSettings, args, &result)
		return *c.Events, cmp.Or(err, failed(result))
	})
}

// DeleteBucket implements buckets.Buckets.
func (s *Store) DeleteBucket(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, now buckets.Moment) error {
	if err := owner.Check(); err != nil {
		return err
	}
	return s.db.Tx(ctx, "buckets.delete_bucket_and_name", func(tx *pgdb.Tx) error {
		var result int64
		_, err := tx.QueryRow(sqlDeleteBucket, []any{string(owner), b.Name, string(b.ID), at(now)}, &result)
		if err = cmp.Or(err, failed(result)); err != nil {
			return err
		}
		return claimOrFree(tx, buckets.NameClaim{Name: b.Name, Owner: owner, Claimed: now}, false)
	})
}
