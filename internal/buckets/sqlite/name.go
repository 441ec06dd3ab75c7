package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
)

const (
	sqlNames      = `SELECT name, owner, claimed, freed FROM manta_bucket_name`
	sqlName       = sqlNames + ` WHERE name = ?`
	sqlListNames  = sqlNames + ` WHERE name > ? ORDER BY name LIMIT +?`
	sqlNameHolder = `SELECT owner FROM manta_bucket_name WHERE name = ? AND freed IS NULL`
	sqlClaimName  = `INSERT INTO manta_bucket_name (name, owner, claimed) VALUES (?1, ?2, ?3)
		ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, claimed = excluded.claimed, freed = NULL
		WHERE freed IS NOT NULL AND (owner = excluded.owner OR freed <= ?4)`
	sqlRestName = `UPDATE manta_bucket_name SET freed = ?3 WHERE name = ?1 AND owner = ?2 AND freed IS NULL`
	// sqlEndRests keeps an account's MaxResting names that were freed last.
	sqlEndRests = `DELETE FROM manta_bucket_name WHERE owner = ?1 AND freed IS NOT NULL AND freed <=
		(SELECT freed FROM manta_bucket_name WHERE owner = ?1 AND freed IS NOT NULL ORDER BY freed DESC LIMIT 1 OFFSET ?2 + 0)`
	sqlFreeName        = `DELETE FROM manta_bucket_name WHERE name = ?`
	sqlForgetNames     = `DELETE FROM manta_bucket_name WHERE name IN (SELECT name FROM manta_bucket_name WHERE freed <= ?1 ORDER BY freed LIMIT ?2 + 0)`
	sqlBucketsWithCORS = `SELECT b.id, b.name, b.owner, json_extract(s.settings, '$.cors') AS cors
		FROM manta_bucket b JOIN manta_bucket_settings s ON s.owner = b.owner AND s.bucket_id = b.id
		LEFT JOIN manta_bucket_name n ON n.name = b.name AND n.owner = b.owner AND n.freed IS NULL
		WHERE b.name = ? AND cors IS NOT NULL ORDER BY n.owner IS NULL, b.owner LIMIT +?`
	// sqlHiddenBuckets repeats BucketSettings.IsShared.
	sqlHiddenBuckets = sqlBuckets + ` JOIN manta_bucket_name n ON n.name = b.name AND n.owner <> b.owner
		WHERE json_extract(settings, '$.public_read') AND NOT coalesce(json_extract(settings, '$.public_access_block.ignore_acls'), 0)
			OR json_extract(settings, '$.policy.shared') AND NOT (coalesce(json_extract(settings, '$.policy.public'), 0)
				AND coalesce(json_extract(settings, '$.public_access_block.restrict_policy'), 0))
		ORDER BY b.name, b.owner LIMIT +?`
)

// scanName reads the columns in sqlNames.
func scanName(r *sqlite.Stmt) buckets.NameClaim {
	return buckets.NameClaim{
		Name: r.ColumnText(0), Owner: buckets.AccountID(r.ColumnText(1)), Claimed: buckets.Moment(r.ColumnInt64(2)), Freed: buckets.Moment(r.ColumnInt64(3)),
	}
}

// claimOrFree makes the claim if the name can be claimed, or lets the owner's claim rest from n.Claimed on.
func claimOrFree(c *sqlite.Conn, n buckets.NameClaim, shared bool) error {
	if shared {
		return sqlitedb.Exec(c, sqlClaimName, n.Name, n.Owner, n.Claimed, buckets.RestedBefore(n.Claimed))
	}
	if err := sqlitedb.Exec(c, sqlRestName, n.Name, n.Owner, n.Claimed); err != nil {
		return err
	}
	return sqlitedb.Exec(c, sqlEndRests, n.Owner, buckets.MaxResting)
}

// NameHolder implements buckets.Names.
func (s *Store) NameHolder(ctx context.Context, name string) (owner buckets.AccountID, err error) {
	err = s.db.ReadOne(ctx, "name_holder", func(c *sqlite.Conn) error {
		owner, _, err = sqlitedb.QueryRow(c, sqlNameHolder, func(r *sqlite.Stmt) buckets.AccountID { return buckets.AccountID(r.ColumnText(0)) }, name)
		return err
	})
	return owner, err
}

// NameClaim implements buckets.Names.
func (s *Store) NameClaim(ctx context.Context, name string) (n buckets.NameClaim, err error) {
	err = s.db.ReadOne(ctx, "name_claim", func(c *sqlite.Conn) error {
		n, err = nameClaim(c, name)
		return err
	})
	return n, err
}

// nameClaim returns ErrNoName if nobody claims the name.
func nameClaim(c *sqlite.Conn, name string) (buckets.NameClaim, error) {
	n, found, err := sqlitedb.QueryRow(c, sqlName, scanName, name)
	if err == nil && !found {
		err = buckets.ErrNoName
	}
	return n, err
}

// NameClaims implements buckets.Names.
func (s *Store) NameClaims(ctx context.Context, after string, limit int) (all []buckets.NameClaim, err error) {
	err = s.db.Read(ctx, "name_claims", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlListNames, scanName, after, limit)
		return err
	})
	return all, err
}

// FreeName implements buckets.Names.
func (s *Store) FreeName(ctx context.Context, name string) (n buckets.NameClaim, err error) {
	err = s.db.WriteChecked(ctx, "free_name", func(c *sqlite.Conn) error {
		n, err = nameClaim(c, name)
		return err
	}, func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sqlFreeName, name) })
	return n, err
}

// BucketsWithCORS implements buckets.Finder.
func (s *Store) BucketsWithCORS(ctx context.Context, name string, limit int) (all []buckets.Bucket, err error) {
	err = s.db.ReadOne(ctx, "buckets_with_cors", func(c *sqlite.Conn) error {
		all = nil
		return sqlitedb.ForEach(c, sqlBucketsWithCORS, func(r *sqlite.Stmt) error {
			b := buckets.Bucket{BucketRef: buckets.BucketRef{ID: buckets.BucketID(r.ColumnText(0)), Name: r.ColumnText(1)}, Owner: buckets.AccountID(r.ColumnText(2))}
			err := column(r, 3, &b.Settings.CORS)
			all = append(all, b)
			return err
		}, name, limit)
	})
	return all, err
}

// HiddenBuckets implements buckets.Names.
func (s *Store) HiddenBuckets(ctx context.Context, limit int) (all []buckets.Bucket, err error) {
	err = s.db.Read(ctx, "hidden_buckets", func(c *sqlite.Conn) error {
		all, err = readBuckets(c, sqlHiddenBuckets, limit)
		return err
	})
	return all, err
}

// ForgetNames implements buckets.Names.
func (s *Store) ForgetNames(ctx context.Context, before buckets.Moment, limit int) (n int, err error) {
	err = s.db.Write(ctx, "forget_names", func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlForgetNames, before, limit); err != nil {
			return err
		}
		n = c.Changes()
		return nil
	})
	return n, err
}
