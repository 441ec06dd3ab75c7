package sqlite

import (
	"context"
	"encoding/json"
	"errors"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
)

const (
	garbageColumns = `owner, bucket_id, name, id, content_length, sharks, properties ->> '$.s3.upload', deleted_at,
		created, modified, creator, content_md5, content_type, headers, roles, properties`

	sqlClaim = `UPDATE manta_bucket_deleted_object SET claim = ?1, claim_expires = ?2 WHERE rowid IN (
			SELECT rowid FROM manta_bucket_deleted_object WHERE deleted_at <= ?3 AND (claim_expires IS NULL OR claim_expires <= ?4)
			ORDER BY deleted_at LIMIT +?5)
		RETURNING ` + garbageColumns
	sqlClaimed = `SELECT ` + garbageColumns + ` FROM manta_bucket_deleted_object WHERE claim = ?1 AND claim_expires > ?2`
	sqlUnclaim = `UPDATE manta_bucket_deleted_object SET claim = NULL, claim_expires = NULL WHERE claim = ?1`
	sqlWaiting = `SELECT count(*), coalesce(sum(deleted_at > ?1), 0), coalesce(min(CASE WHEN deleted_at > ?1 THEN deleted_at END), 0),
		coalesce(sum(deleted_at <= ?1 AND claim_expires > ?2), 0), coalesce(max(CASE WHEN deleted_at <= ?1 AND claim_expires > ?2 THEN claim_expires END), 0)
		FROM manta_bucket_deleted_object`
	// The plus signs make SQLite use the index on id. The bucket index would match all garbage of the bucket, the
	// claim index a whole batch.
	oneGarbage = ` WHERE +owner = ?1 AND +bucket_id = ?2 AND name = ?3 AND id = ?4`
	sqlRemove  = `DELETE FROM manta_bucket_deleted_object` + oneGarbage + ` AND +claim = ?5 RETURNING 1`

	sqlHold        = `INSERT OR REPLACE INTO manta_bucket_hold (id, expires) VALUES (?, ?)`
	sqlEndHolds    = `DELETE FROM manta_bucket_hold WHERE expires <= ?`
	sqlReleaseHold = `DELETE FROM manta_bucket_hold WHERE id = ?`
	sqlIsHeld      = `SELECT 1 FROM manta_bucket_hold WHERE expires > ? LIMIT 1`
	sqlHeld        = `SELECT coalesce(max(expires), 0) FROM manta_bucket_hold WHERE expires > ?`

	sqlRemoveParts    = `DELETE FROM manta_bucket_part WHERE owner = ? AND upload_id = ?`
	sqlDeletedBuckets = `SELECT id, name, owner, created, deleted_at FROM manta_bucket_deleted_bucket b WHERE deleted_at <= ?1 AND NOT EXISTS (
			SELECT 1 FROM manta_bucket_deleted_object o WHERE o.owner = b.owner AND o.bucket_id = b.id)
		ORDER BY deleted_at LIMIT +?2`
	sqlRemoveBucket   = `DELETE FROM manta_bucket_deleted_bucket WHERE id = ? AND owner = ? AND name = ?`
	sqlRemoveSettings = `DELETE FROM manta_bucket_settings WHERE owner = ? AND bucket_id = ?`
	sqlRemoveUsage    = `DELETE FROM manta_bucket_usage WHERE owner = ? AND bucket_id = ?`
	sqlBacklog        = `SELECT count(*), coalesce(sum(content_length), 0), coalesce(min(deleted_at), 0) FROM manta_bucket_deleted_object`

	bodyColumns      = `id, content_length, content_md5, sharks`
	sqlObjectBodies  = `SELECT owner, bucket_id, name, '', 0, 0, ` + bodyColumns + `, ` + sumColumns + ` FROM manta_bucket_object WHERE sharks IS NOT NULL`
	sqlVersionBodies = `SELECT owner, bucket_id, name, '', 0, 0, ` + bodyColumns + `, ` + sumColumns + ` FROM manta_bucket_version WHERE sharks IS NOT NULL`
	sqlPartBodies    = `SELECT owner, bucket_id, name, upload_id, number, (owner, upload_id) IN (
			SELECT owner, properties ->> '$.s3.upload' FROM manta_bucket_deleted_object WHERE properties ->> '$.s3.upload' IS NOT NULL
		), ` + bodyColumns + `, ` + sumColumns + ` FROM manta_bucket_part WHERE sharks IS NOT NULL`
	sqlGarbageBodies = `SELECT owner, bucket_id, name, '', 0, 1, ` + bodyColumns + `, NULL, NULL, NULL FROM manta_bucket_deleted_object WHERE sharks IS NOT NULL`
	sqlMoveObject    = `UPDATE manta_bucket_object SET sharks = ?6 WHERE owner = ?1 AND bucket_id = ?2 AND name = ?3 AND id = ?4 AND sharks = ?5 RETURNING 1`
	sqlMoveVersion   = `UPDATE manta_bucket_version SET sharks = ?6 WHERE owner = ?1 AND bucket_id = ?2 AND name = ?3 AND id = ?4 AND sharks = ?5 RETURNING 1`
	sqlMovePart      = `UPDATE manta_bucket_part SET sharks = ?6 WHERE owner = ?1 AND upload_id = ?2 AND number = ?3 AND id = ?4 AND sharks = ?5 RETURNING 1`
	sqlMoveGarbage   = `UPDATE manta_bucket_deleted_object SET sharks = ?6, claim = NULL, claim_expires = NULL` + oneGarbage + ` AND sharks = ?5 RETURNING 1`
	sqlFrameObject   = `UPDATE manta_bucket_object SET content_crc32c = NULL, content_crc64nvme = ?5, content_frames = ?6
		WHERE owner = ?1 AND bucket_id = ?2 AND name = ?3 AND id = ?4 AND sharks IS NOT NULL AND content_frames IS NULL RETURNING 1`
	sqlFrameVersion = `UPDATE manta_bucket_version SET content_crc32c = NULL, content_crc64nvme = ?5, content_frames = ?6
		WHERE owner = ?1 AND bucket_id = ?2 AND name = ?3 AND id = ?4 AND sharks IS NOT NULL AND content_frames IS NULL RETURNING 1`
	sqlFramePart = `UPDATE manta_bucket_part SET content_crc32c = NULL, content_crc64nvme = ?5, content_frames = ?6
		WHERE owner = ?1 AND upload_id = ?2 AND number = ?3 AND id = ?4 AND sharks IS NOT NULL AND content_frames IS NULL RETURNING 1`
	// The plus sign keeps SQLite from using the bucket index.
	sqlEndClaim = `UPDATE manta_bucket_deleted_object SET claim = NULL, claim_expires = NULL
		WHERE properties ->> '$.s3.upload' = ?2 AND +owner = ?1 AND claim IS NOT NULL`
)

// Claim implements buckets.Collector.
func (s *Store) Claim(ctx context.Context, claim buckets.Claim) (all []buckets.Garbage, err error) {
	err = s.db.Write(ctx, "claim_garbage", func(c *sqlite.Conn) error {
		all = nil
		if held, err := exists(c, sqlIsHeld, claim.Now); held || err != nil {
			return err
		}
		all, err = readGarbage(c, claim.Objects, sqlClaim, claim.ID, claim.Expires, claim.Before, claim.Now, claim.Limit)
		return err
	})
	return all, err
}

// Claimed implements buckets.Collector.
func (s *Store) Claimed(ctx context.Context, claim string, now buckets.Moment, objects bool) (all []buckets.Garbage, err error) {
	err = s.db.Read(ctx, "claimed_garbage", func(c *sqlite.Conn) error {
		all, err = readGarbage(c, objects, sqlClaimed, claim, now)
		return err
	})
	return all, err
}

// readGarbage reads garbageColumns. With objects, each garbage carries the deleted object, for restoring it.
func readGarbage(c *sqlite.Conn, objects bool, sql string, args ...any) (all []buckets.Garbage, err error) {
	err = sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
		g := buckets.Garbage{
			Owner: buckets.AccountID(r.ColumnText(0)), Bucket: buckets.BucketID(r.ColumnText(1)), Name: r.ColumnText(2),
			ID: buckets.ObjectID(r.ColumnText(3)), Length: r.ColumnInt64(4), Upload: buckets.UploadID(r.ColumnText(6)),
			Deleted: buckets.Moment(r.ColumnInt64(7)),
		}
		err := column(r, 5, &g.Sharks)
		if objects && err == nil {
			g.Object, err = deletedObject(r, &g)
		}
		all = append(all, g)
		return err
	}, args...)
	buckets.SortGarbage(all)
	return all, err
}

// deletedObject reads the object's remaining columns.
func deletedObject(r *sqlite.Stmt, g *buckets.Garbage) (*buckets.Object, error) {
	o := &buckets.Object{
		Name: g.Name, Created: buckets.Moment(r.ColumnInt64(8)), Modified: buckets.Moment(r.ColumnInt64(9)),
		Creator: buckets.AccountID(r.ColumnText(10)), ContentType: r.ColumnText(12),
		Body: buckets.Body{ID: g.ID, Length: g.Length, MD5: blob(r, 11), Sharks: g.Sharks},
	}
	var err error
	o.Properties, err = buckets.DecodeProperties(blob(r, 15))
	return o, errors.Join(err, column(r, 13, &o.Headers), column(r, 14, &o.Roles))
}

// Unclaim implements buckets.Collector.
func (s *Store) Unclaim(ctx context.Context, claim string) error {
	return s.db.Write(ctx, "unclaim_garbage", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sqlUnclaim, claim) })
}

// Waiting implements buckets.Collector.
func (s *Store) Waiting(ctx context.Context, before, now buckets.Moment) (w buckets.Waiting, err error) {
	err = s.db.Read(ctx, "waiting_garbage", func(c *sqlite.Conn) error {
		_, _, err := sqlitedb.QueryRow(c, sqlWaiting, func(r *sqlite.Stmt) bool {
			w = buckets.Waiting{
				Rows: r.ColumnInt64(0), Young: r.ColumnInt64(1), Next: buckets.Moment(r.ColumnInt64(2)),
				Claimed: r.ColumnInt64(3), Until: buckets.Moment(r.ColumnInt64(4)),
			}
			return true
		}, before, now)
		return err
	})
	return w, err
}

// Hold implements buckets.Holds.
func (s *Store) Hold(ctx context.Context, id string, now, expires buckets.Moment) error {
	return s.db.Write(ctx, "hold_garbage", func(c *sqlite.Conn) error {
		return errors.Join(sqlitedb.Exec(c, sqlEndHolds, now), sqlitedb.Exec(c, sqlHold, id, expires))
	})
}

// Release implements buckets.Holds.
func (s *Store) Release(ctx context.Context, id string) error {
	return s.db.Write(ctx, "release_garbage", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sqlReleaseHold, id) })
}

// Held implements buckets.Holds.
func (s *Store) Held(ctx context.Context, now buckets.Moment) (until buckets.Moment, err error) {
	err = s.db.Read(ctx, "held_garbage", func(c *sqlite.Conn) error {
		until, _, err = sqlitedb.QueryRow(c, sqlHeld, func(r *sqlite.Stmt) buckets.Moment { return buckets.Moment(r.ColumnInt64(0)) }, now)
		return err
	})
	return until, err
}

// Remove implements buckets.Collector.
func (s *Store) Remove(ctx context.Context, claim string, garbage []buckets.Garbage) (n int, err error) {
	err = s.db.Write(ctx, "remove_garbage", func(c *sqlite.Conn) error {
		n = 0
		for i := range garbage {
			g := &garbage[i]
			_, removed, err := sqlitedb.QueryRow(c, sqlRemove, func(*sqlite.Stmt) bool { return true }, g.Owner, g.Bucket, g.Name, g.ID, claim)
			if err != nil {
				return err
			}
			if !removed {
				continue
			}
			n++
			if g.Upload == "" {
				continue
			}
			if err := sqlitedb.Exec(c, sqlRemoveParts, g.Owner, g.Upload); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// DeletedBuckets implements buckets.Collector.
func (s *Store) DeletedBuckets(ctx context.Context, before buckets.Moment, limit int) (all []buckets.DeletedBucket, err error) {
	err = s.db.Read(ctx, "deleted_buckets", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlDeletedBuckets, func(r *sqlite.Stmt) (b buckets.DeletedBucket) {
			b.ID, b.Name = buckets.BucketID(r.ColumnText(0)), r.ColumnText(1)
			b.Owner, b.Created, b.Deleted = buckets.AccountID(r.ColumnText(2)), buckets.Moment(r.ColumnInt64(3)), buckets.Moment(r.ColumnInt64(4))
			return b
		}, before, limit)
		return err
	})
	return all, err
}

// RemoveBucket implements buckets.Collector.
func (s *Store) RemoveBucket(ctx context.Context, b buckets.DeletedBucket, now buckets.Moment, limit int) (done bool, err error) {
	err = s.db.Write(ctx, "remove_bucket", func(c *sqlite.Conn) error {
		n, err := abortAll(c, now, sqlOfBucket, b.Owner, b.ID, limit)
		if done = n == 0; err != nil || !done {
			return err
		}
		return errors.Join(
			sqlitedb.Exec(c, sqlRemoveBucket, b.ID, b.Owner, b.Name),
			sqlitedb.Exec(c, sqlRemoveSettings, b.Owner, b.ID),
			sqlitedb.Exec(c, sqlRemoveUsage, b.Owner, b.ID),
			sqlitedb.Exec(c, sqlRemoveLifecycle, b.Owner, b.ID),
		)
	})
	return done, err
}

// Backlog implements buckets.Collector.
func (s *Store) Backlog(ctx context.Context) (rows, bytes int64, oldest buckets.Moment, err error) {
	err = s.db.Read(ctx, "backlog", func(c *sqlite.Conn) error {
		_, _, err := sqlitedb.QueryRow(c, sqlBacklog, func(r *sqlite.Stmt) bool {
			rows, bytes, oldest = r.ColumnInt64(0), r.ColumnInt64(1), buckets.Moment(r.ColumnInt64(2))
			return true
		})
		return err
	})
	return rows, bytes, oldest, err
}

// References implements buckets.References.
func (s *Store) References(ctx context.Context, fn func(buckets.Reference) error) error {
	return s.db.Read(ctx, "references", func(c *sqlite.Conn) error {
		for _, sql := range []string{sqlObjectBodies, sqlVersionBodies, sqlPartBodies, sqlGarbageBodies} {
			err := sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
				ref := buckets.Reference{
					Owner: buckets.AccountID(r.ColumnText(0)), Bucket: buckets.BucketID(r.ColumnText(1)), Name: r.ColumnText(2),
					Upload: buckets.UploadID(r.ColumnText(3)), Number: r.ColumnInt(4), Garbage: r.ColumnBool(5),
					Body: buckets.Body{ID: buckets.ObjectID(r.ColumnText(6)), Length: r.ColumnInt64(7), MD5: blob(r, 8)},
				}
				sums(r, 10, &ref.Body)
				if err := column(r, 9, &ref.Sharks); err != nil {
					return err
				}
				return fn(ref)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// SetSharks implements buckets.References.
func (s *Store) SetSharks(ctx context.Context, ref buckets.Reference, sharks []string) (set bool, err error) {
	if err := ref.Owner.Check(); err != nil {
		return false, err
	}
	was, err1 := json.Marshal(ref.Sharks)
	is, err2 := jsonOrNull(sharks, len(sharks))
	if err := errors.Join(err1, err2); err != nil {
		return false, errcode.Wrap(errcode.Internal, "encode the nodes of a body", err)
	}
	err = s.db.Write(ctx, "set_sharks", func(c *sqlite.Conn) error {
		if err := notRemoved(c, sharks, ref.Sharks); err != nil {
			return err
		}
		switch {
		case ref.Upload != "":
			if set, err = exists(c, sqlMovePart, ref.Owner, ref.Upload, ref.Number, ref.ID, string(was), is); err == nil && set {
				err = sqlitedb.Exec(c, sqlEndClaim, ref.Owner, ref.Upload)
			}
		case ref.Garbage:
			set, err = exists(c, sqlMoveGarbage, ref.Owner, ref.Bucket, ref.Name, ref.ID, string(was), is)
		default:
			for _, sql := range []string{sqlMoveObject, sqlMoveVersion} {
				if set, err = exists(c, sql, ref.Owner, ref.Bucket, ref.Name, ref.ID, string(was), is); set || err != nil {
					break
				}
			}
		}
		return err
	})
	return set, err
}

// SetFrames implements buckets.References.
func (s *Store) SetFrames(ctx context.Context, ref buckets.Reference, f buckets.Frames) (set bool, err error) {
	if err := ref.Owner.Check(); err != nil {
		return false, err
	}
	err = s.db.Write(ctx, "set_frames", func(c *sqlite.Conn) error {
		if ref.Upload != "" {
			set, err = exists(c, sqlFramePart, ref.Owner, ref.Upload, ref.Number, ref.ID, int64(f.CRC64NVME), int64(f.ID))
			return err
		}
		for _, sql := range []string{sqlFrameObject, sqlFrameVersion} {
			if set, err = exists(c, sql, ref.Owner, ref.Bucket, ref.Name, ref.ID, int64(f.CRC64NVME), int64(f.ID)); set || err != nil {
				break
			}
		}
		return err
	})
	return set, err
}
