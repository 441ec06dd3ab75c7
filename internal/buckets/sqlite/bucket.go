package sqlite

import (
	"context"
	"encoding/json"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/fault"
)

const (
	sqlBuckets = `SELECT b.id, b.name, b.owner, b.created, settings FROM manta_bucket b
		LEFT JOIN manta_bucket_settings s ON s.owner = b.owner AND s.bucket_id = b.id`
	sqlBucket      = sqlBuckets + ` WHERE b.owner = ? AND b.name = ?`
	sqlNamesakes   = sqlBuckets + ` WHERE b.name = ? ORDER BY b.owner LIMIT 2`
	sqlListBuckets = sqlBuckets + ` WHERE b.owner = ?1 AND b.name > ?2 AND b.name >= ?3 ORDER BY b.name LIMIT +?4`
	sqlHasBucket   = `SELECT 1 FROM manta_bucket WHERE owner = ? AND name = ? AND id = ?`
	sqlAddBucket   = `INSERT INTO manta_bucket (owner, name, id, created) VALUES (?, ?, ?, ?)`
	sqlSetSettings = `INSERT OR REPLACE INTO manta_bucket_settings (owner, bucket_id, settings) VALUES (?, ?, ?)`
	sqlHasObjects  = `SELECT 1 FROM manta_bucket_object WHERE owner = ? AND bucket_id = ? LIMIT 1`
	sqlBuryBucket  = `INSERT INTO manta_bucket_deleted_bucket (id, name, owner, created, deleted_at)
		SELECT id, name, owner, created, ?3 FROM manta_bucket WHERE owner = ?1 AND name = ?2`
	sqlDeleteBucket = `DELETE FROM manta_bucket WHERE owner = ? AND name = ?`
)

func scanBucket(r *sqlite.Stmt) (b buckets.Bucket, err error) {
	b = buckets.Bucket{
		BucketRef: buckets.BucketRef{ID: buckets.BucketID(r.ColumnText(0)), Name: r.ColumnText(1)},
		Owner:     buckets.AccountID(r.ColumnText(2)), Created: buckets.Moment(r.ColumnInt64(3)),
	}
	return b, column(r, 4, &b.Settings)
}

// readBuckets runs a statement that returns buckets.
func readBuckets(c *sqlite.Conn, sql string, args ...any) (all []buckets.Bucket, err error) {
	err = sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
		b, err := scanBucket(r)
		all = append(all, b)
		return err
	}, args...)
	return all, err
}

// CreateBucket implements buckets.Store.
func (s *Store) CreateBucket(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, now buckets.Moment) (made buckets.Bucket, err error) {
	if err := owner.Check(); err != nil {
		return made, err
	}
	err = s.db.WriteChecked(ctx, "create_bucket", func(c *sqlite.Conn) error {
		if err := hasAccount(c, owner); err != nil {
			return err
		}
		found, err := readBuckets(c, sqlBucket, owner, b.Name)
		if err == nil && len(found) > 0 {
			made, err = found[0], buckets.ErrBucketExists
		}
		return err
	}, func(c *sqlite.Conn) error {
		made = buckets.Bucket{BucketRef: b, Owner: owner, Created: now}
		return sqlitedb.Exec(c, sqlAddBucket, owner, b.Name, b.ID, now)
	})
	return made, err
}

// Bucket implements buckets.Store.
func (s *Store) Bucket(ctx context.Context, owner buckets.AccountID, name string) (b buckets.Bucket, err error) {
	if err := owner.Check(); err != nil {
		return b, err
	}
	err = s.db.Read(ctx, "bucket", func(c *sqlite.Conn) error {
		b, err = readBucket(c, owner, name)
		return err
	})
	return b, err
}

// readBucket reads a bucket, or returns ErrNoBucket.
func readBucket(c *sqlite.Conn, owner buckets.AccountID, name string) (b buckets.Bucket, err error) {
	found := false
	err = sqlitedb.ForEach(c, sqlBucket, func(r *sqlite.Stmt) error {
		found = true
		b, err = scanBucket(r)
		return err
	}, owner, name)
	if err == nil && !found {
		err = buckets.ErrNoBucket
	}
	return b, err
}

// Buckets implements buckets.Store.
func (s *Store) Buckets(ctx context.Context, owner buckets.AccountID, q buckets.BucketQuery) (page []buckets.Bucket, more bool, err error) {
	if err := owner.Check(); err != nil {
		return nil, false, err
	}
	err = s.db.Read(ctx, "list_buckets", func(c *sqlite.Conn) error {
		page, err = readBuckets(c, sqlListBuckets, owner, q.After, q.Prefix, q.Limit+1)
		return err
	})
	page, more = q.Cut(page)
	return page, more, err
}

// Namesakes implements buckets.Store.
func (s *Store) Namesakes(ctx context.Context, name string) (all []buckets.Bucket, err error) {
	err = s.db.Read(ctx, "namesakes", func(c *sqlite.Conn) error {
		all, err = readBuckets(c, sqlNamesakes, name)
		return err
	})
	return all, err
}

// hasBucket returns ErrNoBucket if the incarnation of the bucket does not exist.
func hasBucket(c *sqlite.Conn, owner buckets.AccountID, b buckets.BucketRef) error {
	found, err := exists(c, sqlHasBucket, owner, b.Name, b.ID)
	if err == nil && !found {
		return buckets.ErrNoBucket
	}
	return err
}

// SetBucket implements buckets.Store.
func (s *Store) SetBucket(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, settings buckets.BucketSettings) error {
	if err := owner.Check(); err != nil {
		return err
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return fault.Wrap(fault.Internal, "encode the settings of a bucket", err)
	}
	return s.db.WriteChecked(ctx, "set_bucket", func(c *sqlite.Conn) error {
		return hasBucket(c, owner, b)
	}, func(c *sqlite.Conn) error {
		return sqlitedb.Exec(c, sqlSetSettings, owner, b.ID, string(text))
	})
}

// DeleteBucket implements buckets.Store.
func (s *Store) DeleteBucket(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, now buckets.Moment) error {
	if err := owner.Check(); err != nil {
		return err
	}
	return s.db.WriteChecked(ctx, "delete_bucket", func(c *sqlite.Conn) error {
		if err := hasBucket(c, owner, b); err != nil {
			return err
		}
		found, err := exists(c, sqlHasObjects, owner, b.ID)
		if err == nil && found {
			return buckets.ErrBucketNotEmpty
		}
		return err
	}, func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlBuryBucket, owner, b.Name, now); err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlDeleteBucket, owner, b.Name)
	})
}
