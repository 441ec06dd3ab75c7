package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
)

// On Citus manta_bucket_name is a reference table: any node reads it, and a write goes to all. So a transaction first
// writes the bucket, on its owner's node, and then the name. The order is always the same, so they cannot deadlock.
var (
	nameColumns   = `SELECT name, owner::text, claimed, freed FROM manta_bucket_name`
	sqlName       = pgdb.Statement{Name: "buckets.name", SQL: nameColumns + ` WHERE name = $1::text`}
	sqlListNames  = pgdb.Statement{Name: "buckets.names", SQL: nameColumns + ` WHERE name > $1::text ORDER BY name LIMIT $2::bigint`}
	sqlNameHolder = pgdb.Statement{Name: "buckets.name_holder", SQL: `SELECT owner::text FROM manta_bucket_name WHERE name = $1::text AND freed IS NULL`}
	sqlClaimName  = pgdb.Statement{Name: "buckets.claim_name", Wide: true, SQL: `
		INSERT INTO manta_bucket_name (name, owner, claimed) VALUES ($1::text, $2::uuid, $3::timestamptz)
		ON CONFLICT (name) DO UPDATE SET owner = EXCLUDED.owner, claimed = EXCLUDED.claimed, freed = NULL
		WHERE manta_bucket_name.freed IS NOT NULL AND (manta_bucket_name.owner = EXCLUDED.owner OR manta_bucket_name.freed <= $4::timestamptz)`}
	sqlRestName = pgdb.Statement{Name: "buckets.rest_name", Wide: true, SQL: `
		UPDATE manta_bucket_name SET freed = $3::timestamptz WHERE name = $1::text AND owner = $2::uuid AND freed IS NULL`}
	// sqlEndRests keeps an account's MaxResting names that were freed last.
	sqlEndRests = pgdb.Statement{Name: "buckets.end_rests", Wide: true, SQL: `
		DELETE FROM manta_bucket_name WHERE owner = $1::uuid AND freed IS NOT NULL AND freed <= (SELECT n.freed FROM manta_bucket_name n
			WHERE n.owner = $1::uuid AND n.freed IS NOT NULL ORDER BY n.freed DESC LIMIT 1 OFFSET $2::bigint)`}
	sqlFreeName = pgdb.Statement{Name: "buckets.free_name", Wide: true, SQL: `
		DELETE FROM manta_bucket_name WHERE name = $1::text RETURNING name, owner::text, claimed, freed`}
	sqlOldNames    = pgdb.Statement{Name: "buckets.old_names", SQL: `SELECT name FROM manta_bucket_name WHERE freed <= $1::timestamptz ORDER BY freed LIMIT $2::bigint`}
	sqlForgetNames = pgdb.Statement{Name: "buckets.forget_names", Wide: true, SQL: `
		DELETE FROM manta_bucket_name WHERE name = ANY ($1::text[]) AND freed <= $2::timestamptz`}
	sqlBucketsWithCORS = pgdb.Statement{Name: "buckets.buckets_with_cors", Wide: true, SQL: `
		SELECT b.id::text, b.name, b.owner::text, b.created, jsonb_build_object('cors', s.settings -> 'cors')::text, 0::smallint, NULL::text
		FROM manta_bucket b JOIN manta_bucket_settings s ON s.owner = b.owner AND s.bucket_id = b.id
		LEFT JOIN manta_bucket_name n ON n.name = b.name AND n.owner = b.owner AND n.freed IS NULL
		WHERE b.name = $1::text AND s.settings -> 'cors' IS NOT NULL ORDER BY n.owner IS NULL, b.owner LIMIT $2::bigint`}
	// sqlHiddenBuckets repeats BucketSettings.IsShared.
	sqlHiddenBuckets = pgdb.Statement{Name: "buckets.hidden_buckets", Wide: true, SQL: bucketColumns + `
		JOIN manta_bucket_name n ON n.name = b.name AND n.owner <> b.owner
		WHERE s.settings -> 'public_read' = 'true' AND s.settings #> '{public_access_block,ignore_acls}' IS DISTINCT FROM 'true'
			OR s.settings #> '{policy,shared}' = 'true' AND NOT (s.settings #> '{policy,public}' IS NOT DISTINCT FROM 'true'
				AND s.settings #> '{public_access_block,restrict_policy}' IS NOT DISTINCT FROM 'true')
		ORDER BY b.name, b.owner LIMIT $1::bigint`}
)

// setAccess changes settings that decide whether the bucket is shared. The statement's lock on the settings lasts until
// the commit, so the name is claimed by the settings that were written last.
func (s *Store) setAccess(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, c buckets.SettingsChange, args []any) error {
	change := func(tx *pgdb.Tx) error {
		var result int64
		_, err := tx.QueryRow(sqlSetSettings, args, &result)
		if err = cmp.Or(err, failed(result)); err != nil {
			return err
		}
		var r bucketRow
		if _, err := tx.QueryRow(sqlBucket, []any{string(owner), b.Name}, r.dest()...); err != nil {
			return err
		}
		now, err := r.bucket()
		if err != nil {
			return err
		}
		return claimOrFree(tx, buckets.NameClaim{Name: b.Name, Owner: owner, Claimed: c.Now}, now.Settings.IsShared())
	}
	if c.Events == nil {
		return s.db.Tx(ctx, "buckets.set_access", change)
	}
	return s.notifying(ctx, "buckets.set_access_in_steps", objectKey{owner, b, ""}, func(tx *pgdb.Tx) ([]buckets.Event, error) {
		return *c.Events, change(tx)
	})
}

// claimOrFree makes the claim if the name can be claimed, or lets the owner's claim rest from n.Claimed on.
func claimOrFree(tx *pgdb.Tx, n buckets.NameClaim, shared bool) error {
	if shared {
		_, err := tx.Exec(sqlClaimName, n.Name, string(n.Owner), at(n.Claimed), at(buckets.RestedBefore(n.Claimed)))
		return err
	}
	rests, err := tx.Exec(sqlRestName, n.Name, string(n.Owner), at(n.Claimed))
	if err != nil || rests == 0 {
		return err
	}
	_, err = tx.Exec(sqlEndRests, string(n.Owner), buckets.MaxResting)
	return err
}

// nameRow holds the destinations for a name's columns.
type nameRow struct {
	name, owner    string
	claimed, freed pgtype.Timestamptz
}

// dest returns the destinations in the order of the columns.
func (r *nameRow) dest() []any { return []any{&r.name, &r.owner, &r.claimed, &r.freed} }

// claim decodes the last row read.
func (r *nameRow) claim() buckets.NameClaim {
	return buckets.NameClaim{Name: r.name, Owner: buckets.AccountID(r.owner), Claimed: momentOf(r.claimed), Freed: momentOf(r.freed)}
}

// NameHolder implements buckets.Names.
func (s *Store) NameHolder(ctx context.Context, name string) (buckets.AccountID, error) {
	var owner string
	_, err := s.db.QueryRow(ctx, sqlNameHolder, []any{name}, &owner)
	return buckets.AccountID(owner), err
}

// NameClaim implements buckets.Names.
func (s *Store) NameClaim(ctx context.Context, name string) (buckets.NameClaim, error) {
	return s.oneName(ctx, sqlName, name)
}

// oneName returns ErrNoName if the statement returns nothing.
func (s *Store) oneName(ctx context.Context, st pgdb.Statement, name string) (buckets.NameClaim, error) {
	var r nameRow
	found, err := s.db.QueryRow(ctx, st, []any{name}, r.dest()...)
	switch {
	case err != nil:
		return buckets.NameClaim{}, err
	case !found:
		return buckets.NameClaim{}, buckets.ErrNoName
	}
	return r.claim(), nil
}

// NameClaims implements buckets.Names.
func (s *Store) NameClaims(ctx context.Context, after string, limit int) (all []buckets.NameClaim, err error) {
	var r nameRow
	err = s.db.ForEach(ctx, sqlListNames, []any{after, limit}, func() { all = nil }, func() error {
		all = append(all, r.claim())
		return nil
	}, r.dest()...)
	return all, err
}

// FreeName implements buckets.Names.
func (s *Store) FreeName(ctx context.Context, name string) (buckets.NameClaim, error) {
	return s.oneName(ctx, sqlFreeName, name)
}

// BucketsWithCORS implements buckets.Finder.
func (s *Store) BucketsWithCORS(ctx context.Context, name string, limit int) ([]buckets.Bucket, error) {
	all, err := s.readBuckets(ctx, sqlBucketsWithCORS, name, limit)
	for i := range all {
		all[i].Created = 0
	}
	return all, err
}

// HiddenBuckets implements buckets.Names.
func (s *Store) HiddenBuckets(ctx context.Context, limit int) ([]buckets.Bucket, error) {
	return s.readBuckets(ctx, sqlHiddenBuckets, limit)
}

// ForgetNames implements buckets.Names.
func (s *Store) ForgetNames(ctx context.Context, before buckets.Moment, limit int) (int, error) {
	var names []string
	var name string
	err := s.db.ForEach(ctx, sqlOldNames, []any{at(before), limit}, func() { names = nil }, func() error {
		names = append(names, name)
		return nil
	}, &name)
	if err != nil || len(names) == 0 {
		return 0, err
	}
	n, err := s.db.Exec(ctx, sqlForgetNames, names, at(before))
	return int(n), err
}
