package sqlite

import (
	"cmp"
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
)

const (
	sqlUsage   = `SELECT objects, bytes, max_objects, max_bytes FROM manta_bucket_usage WHERE owner = ? AND bucket_id = ?`
	sqlMayGrow = `SELECT bucket_id, objects, bytes, max_objects, max_bytes FROM manta_bucket_usage WHERE owner = ?1 AND bucket_id = ?2
		UNION ALL SELECT bucket_id, objects, bytes, max_objects, max_bytes FROM manta_bucket_usage WHERE owner = ?1 AND bucket_id = '` + string(account) + `'`
	sqlAddUsage = `INSERT INTO manta_bucket_usage (owner, bucket_id, objects, bytes) VALUES (?1, ?2, ?3, ?4), (?1, '` + string(account) + `', ?3, ?4)
		ON CONFLICT DO UPDATE SET objects = objects + ?3, bytes = bytes + ?4`
	sqlSetUsage = `INSERT INTO manta_bucket_usage (owner, bucket_id, objects, bytes) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT DO UPDATE SET objects = ?3, bytes = ?4`
	sqlSetQuota = `INSERT INTO manta_bucket_usage (owner, bucket_id, max_objects, max_bytes) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT DO UPDATE SET max_objects = ?3, max_bytes = ?4`
	sqlSetAccountQuota = `UPDATE manta_bucket_account SET max_objects = ?2, max_bytes = ?3 WHERE id = ?1`
	sqlBucketUsage     = `SELECT b.name, b.id, coalesce(objects, 0), coalesce(bytes, 0), coalesce(max_objects, 0), coalesce(max_bytes, 0)
		FROM manta_bucket b LEFT JOIN manta_bucket_usage u ON u.owner = b.owner AND u.bucket_id = b.id
		WHERE b.owner = ? ORDER BY b.name`
	// sqlCount includes deleted buckets with uploads.
	sqlCount = `SELECT bucket_id, sum(objects), sum(bytes) FROM (
			SELECT bucket_id, count(*) AS objects, sum(CASE WHEN properties ->> '$.s3.upload' IS NULL THEN content_length ELSE 0 END) AS bytes
				FROM manta_bucket_object WHERE owner = ?1 GROUP BY bucket_id
			UNION ALL
			SELECT bucket_id, count(*), sum(CASE WHEN properties ->> '$.s3.upload' IS NULL THEN coalesce(content_length, 0) ELSE 0 END)
				FROM manta_bucket_version WHERE owner = ?1 GROUP BY bucket_id
			UNION ALL
			SELECT bucket_id, 0, sum(content_length) FROM manta_bucket_part WHERE owner = ?1 AND upload_id NOT IN (
				SELECT properties ->> '$.s3.upload' FROM manta_bucket_deleted_object
					WHERE owner = ?1 AND properties ->> '$.s3.upload' IS NOT NULL) GROUP BY bucket_id
		) GROUP BY bucket_id`
	sqlCounters = `SELECT bucket_id, objects, bytes FROM manta_bucket_usage WHERE owner = ?`
)

// account is the bucket_id in the row that counts the whole account.
const account = buckets.BucketID("00000000-0000-0000-0000-000000000000")

// checkQuota returns a *QuotaError if the bucket or the account would exceed its quota by delta. A write that adds
// nothing is always allowed, even beyond the quota.
func checkQuota(c *sqlite.Conn, owner buckets.AccountID, b buckets.BucketID, delta buckets.Usage) error {
	if delta.Objects <= 0 && delta.Bytes <= 0 {
		return nil
	}
	var refused error // the bucket's error if both quotas are exceeded
	err := sqlitedb.ForEach(c, sqlMayGrow, func(r *sqlite.Stmt) error {
		u := buckets.Usage{Objects: r.ColumnInt64(1), Bytes: r.ColumnInt64(2)}
		q := buckets.Quota{Objects: r.ColumnInt64(3), Bytes: r.ColumnInt64(4)}
		if ofAccount := r.ColumnText(0) == string(account); !q.Allows(u, delta) && (refused == nil || !ofAccount) {
			refused = &buckets.QuotaError{Account: ofAccount}
		}
		return nil
	}, owner, b)
	return cmp.Or(err, refused)
}

// addUsage changes the bucket's and the account's counters.
func addUsage(c *sqlite.Conn, owner buckets.AccountID, b buckets.BucketID, delta buckets.Usage) error {
	if delta == (buckets.Usage{}) {
		return nil
	}
	return sqlitedb.Exec(c, sqlAddUsage, owner, b, delta.Objects, delta.Bytes)
}

// Usage implements buckets.Counters.
func (s *Store) Usage(ctx context.Context, owner buckets.AccountID) (a buckets.AccountUsage, err error) {
	if err := owner.Check(); err != nil {
		return a, err
	}
	err = s.db.Read(ctx, "usage", func(c *sqlite.Conn) (err error) {
		if a, err = totals(c, owner); err != nil {
			return err
		}
		a.Buckets, err = sqlitedb.QueryAll(c, sqlBucketUsage, func(r *sqlite.Stmt) buckets.BucketUsage {
			return buckets.BucketUsage{
				Bucket: buckets.BucketRef{Name: r.ColumnText(0), ID: buckets.BucketID(r.ColumnText(1))},
				Usage:  buckets.Usage{Objects: r.ColumnInt64(2), Bytes: r.ColumnInt64(3)},
				Quota:  buckets.Quota{Objects: r.ColumnInt64(4), Bytes: r.ColumnInt64(5)},
			}
		}, owner)
		return err
	})
	return a, err
}

// Totals implements buckets.Counters.
func (s *Store) Totals(ctx context.Context, owners []buckets.AccountID) (all []buckets.AccountUsage, err error) {
	err = s.db.Read(ctx, "totals", func(c *sqlite.Conn) error {
		all = make([]buckets.AccountUsage, len(owners))
		for i, o := range owners {
			if err := o.Check(); err != nil {
				return err
			}
			if all[i], err = totals(c, o); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// BucketTotals implements buckets.Counters.
func (s *Store) BucketTotals(ctx context.Context, owner buckets.AccountID, refs []buckets.BucketRef) (all []buckets.BucketUsage, err error) {
	if err := owner.Check(); err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, "bucket_totals", func(c *sqlite.Conn) error {
		all = make([]buckets.BucketUsage, len(refs))
		for i, b := range refs {
			u, _, err := sqlitedb.QueryRow(c, sqlUsage, scanUsage, owner, b.ID)
			if err != nil {
				return err
			}
			all[i] = buckets.BucketUsage{Bucket: b, Usage: u.Total, Quota: u.Quota}
		}
		return nil
	})
	return all, err
}

// scanUsage reads the account's row.
func scanUsage(r *sqlite.Stmt) buckets.AccountUsage {
	return buckets.AccountUsage{
		Total: buckets.Usage{Objects: r.ColumnInt64(0), Bytes: r.ColumnInt64(1)}, Quota: buckets.Quota{Objects: r.ColumnInt64(2), Bytes: r.ColumnInt64(3)},
	}
}

// totals returns the account's usage and quota, zero if it has no row yet.
func totals(c *sqlite.Conn, owner buckets.AccountID) (buckets.AccountUsage, error) {
	a, _, err := sqlitedb.QueryRow(c, sqlUsage, scanUsage, owner, account)
	return a, err
}

// SetQuota implements buckets.Counters.
func (s *Store) SetQuota(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, q buckets.Quota) error {
	if err := owner.Check(); err != nil {
		return err
	}
	return s.db.WriteChecked(ctx, "set_quota", func(c *sqlite.Conn) error {
		if b == (buckets.BucketRef{}) {
			return hasAccount(c, owner)
		}
		return hasBucket(c, owner, b)
	}, func(c *sqlite.Conn) error {
		if b != (buckets.BucketRef{}) {
			return sqlitedb.Exec(c, sqlSetQuota, owner, b.ID, q.Objects, q.Bytes)
		}
		if err := sqlitedb.Exec(c, sqlSetAccountQuota, owner, q.Objects, q.Bytes); err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlSetQuota, owner, account, q.Objects, q.Bytes)
	})
}

// Audit implements buckets.Counters.
func (s *Store) Audit(ctx context.Context, owner buckets.AccountID, repair bool) (miscounts []buckets.Miscount, err error) {
	if err := owner.Check(); err != nil {
		return nil, err
	}
	compare := func(c *sqlite.Conn) error {
		stored, err := usages(c, sqlCount, owner)
		if err != nil {
			return err
		}
		counted, err := usages(c, sqlCounters, owner)
		if err != nil {
			return err
		}
		miscounts = buckets.Miscounts(counted, stored)
		return nil
	}
	if !repair {
		err = s.db.Read(ctx, "audit_usage", compare)
		return miscounts, err
	}
	err = s.db.WriteAlone(ctx, "repair_usage", func(c *sqlite.Conn) error {
		if err := compare(c); err != nil {
			return err
		}
		for _, m := range miscounts {
			if err := sqlitedb.Exec(c, sqlSetUsage, owner, cmp.Or(m.Bucket, account), m.Stored.Objects, m.Stored.Bytes); err != nil {
				return err
			}
		}
		return nil
	})
	return miscounts, err
}

// usages returns counters or counts by bucket; "" is the account.
func usages(c *sqlite.Conn, sql string, owner buckets.AccountID) (map[buckets.BucketID]buckets.Usage, error) {
	all := map[buckets.BucketID]buckets.Usage{}
	err := sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
		id := buckets.BucketID(r.ColumnText(0))
		if id == account {
			id = ""
		}
		all[id] = buckets.Usage{Objects: r.ColumnInt64(1), Bytes: r.ColumnInt64(2)}
		return nil
	}, owner)
	return all, err
}
