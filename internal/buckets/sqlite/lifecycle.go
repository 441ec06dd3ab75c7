package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
)

const (
	sqlDueLifecycles = `SELECT s.bucket_id, s.settings ->> '$.lifecycle.bucket', s.owner, 0, s.settings, 0, NULL FROM manta_bucket_settings s
		LEFT JOIN manta_bucket_lifecycle l ON l.owner = s.owner AND l.bucket_id = s.bucket_id
		WHERE s.settings ->> '$.lifecycle.rules' IS NOT NULL AND (s.owner, s.bucket_id) > (?1, ?2)
			AND (l.due IS NULL OR l.due <= ?3 OR l.rules <> s.settings ->> '$.lifecycle.changed')
		ORDER BY s.owner, s.bucket_id LIMIT +?4`
	sqlLifecycleRun    = `SELECT run FROM manta_bucket_lifecycle WHERE owner = ? AND bucket_id = ?`
	sqlSetLifecycleRun = `INSERT OR REPLACE INTO manta_bucket_lifecycle (owner, bucket_id, rules, due, run) VALUES (?, ?, ?, ?, ?)`
	sqlRemoveLifecycle = `DELETE FROM manta_bucket_lifecycle WHERE owner = ? AND bucket_id = ?`

	sqlCompared = `SELECT id, modified, content_length, properties, sharks IS NOT NULL OR properties ->> '$.s3.upload' IS NOT NULL` + oneObject
)

// DueLifecycles implements buckets.Lifecycles.
func (s *Store) DueLifecycles(ctx context.Context, after buckets.BucketKey, now buckets.Moment, limit int) (all []buckets.Bucket, err error) {
	err = s.db.Read(ctx, "due_lifecycles", func(c *sqlite.Conn) error {
		all, err = readBuckets(c, sqlDueLifecycles, after.Owner, after.Bucket, now, limit)
		return err
	})
	return all, err
}

// LifecycleRun implements buckets.Lifecycles.
func (s *Store) LifecycleRun(ctx context.Context, b buckets.BucketKey) (run buckets.LifecycleRun, err error) {
	if err := b.Owner.Check(); err != nil {
		return run, err
	}
	err = s.db.ReadOne(ctx, "lifecycle_run", func(c *sqlite.Conn) error {
		run = buckets.LifecycleRun{}
		return sqlitedb.ForEach(c, sqlLifecycleRun, func(r *sqlite.Stmt) error { return column(r, 0, &run) }, b.Owner, b.Bucket)
	})
	return run, err
}

// SetLifecycleRun implements buckets.Lifecycles.
func (s *Store) SetLifecycleRun(ctx context.Context, b buckets.BucketKey, run buckets.LifecycleRun) error {
	if err := b.Owner.Check(); err != nil {
		return err
	}
	text, err := json.Marshal(run)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode a run of lifecycle rules", err)
	}
	return s.db.Write(ctx, "set_lifecycle_run", func(c *sqlite.Conn) error {
		return sqlitedb.Exec(c, sqlSetLifecycleRun, b.Owner, b.Bucket, run.Rules, run.Due, string(text))
	})
}

// expireBatch objects take a few milliseconds to write, so that other writes do not wait long.
const expireBatch = 64

// Expire implements buckets.Lifecycles.
func (s *Store) Expire(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, e buckets.Expired) ([]bool, error) {
	if err := owner.Check(); err != nil {
		return nil, err
	}
	deleted := make([]bool, len(e.Objects))
	for at := 0; at < len(e.Objects); at += expireBatch {
		end := min(at+expireBatch, len(e.Objects))
		var events []buckets.Event
		err := s.db.Write(ctx, "expire_objects", func(c *sqlite.Conn) error {
			k, err := findBucket(c, owner, b)
			switch {
			case err != nil:
				return err
			case k.versioning != buckets.VersioningOff:
				events, err = expireVersions(c, write{owner: owner, ref: b, now: e.Now}, e.Slice(at, end), deleted[at:end])
			default:
				events, err = expire(c, write{owner: owner, bucketState: bucketState{bucket: b.ID}, now: e.Now}, e.Slice(at, end), deleted[at:end])
			}
			return errors.Join(err, s.append(c, owner, events))
		})
		if err != nil {
			return deleted, err
		}
		s.appended(owner, events)
	}
	return deleted, nil
}

// expire deletes the objects that did not change since the lifecycle run listed them, and notes in deleted which. It
// works on rows, without write.check, because a run may delete millions of objects.
func expire(c *sqlite.Conn, w write, e buckets.Expired, deleted []bool) (events []buckets.Event, err error) {
	var delta buckets.Usage
	for i, o := range e.Objects {
		now, err := compare(c, w, o)
		if deleted[i] = now.same; err != nil {
			return nil, err
		}
		if !now.same {
			continue
		}
		if now.hasFiles { // writing garbage rows takes most of the time
			if err := sqlitedb.Exec(c, sqlBuryObject, w.owner, w.bucket, o.Name, w.now); err != nil {
				return nil, err
			}
		}
		if err := sqlitedb.Exec(c, sqlDeleteObject, w.owner, w.bucket, o.Name); err != nil {
			return nil, err
		}
		events = append(events, e.Notice.OfDeleted(o.Name, buckets.Deleted{}, w.now)...)
		delta = delta.Minus(buckets.Usage{Objects: 1, Bytes: now.length})
	}
	return events, addUsage(c, w.owner, w.bucket, delta)
}

// expireVersions replaces unchanged objects with delete markers. It skips an object if the marker exceeds a quota or
// replaces a locked null version: the next run tries again.
func expireVersions(c *sqlite.Conn, w write, e buckets.Expired, deleted []bool) (events []buckets.Event, err error) {
	for i, o := range e.Objects {
		deleted[i] = false
		w.name = o.Name
		if err := w.check(c, nil); err != nil {
			return nil, err
		}
		if !w.found || !buckets.SameExpired(&w.old, o) {
			continue
		}
		if w.checkNull() != nil {
			continue
		}
		err := w.adds(c, buckets.Usage{Objects: 1})
		if _, full := errors.AsType[*buckets.QuotaError](err); full {
			continue
		}
		var done buckets.Deleted
		if err == nil {
			done, err = w.mark(c)
		}
		if err != nil {
			return nil, err
		}
		events = append(events, e.Notice.OfDeleted(o.Name, done, w.now)...)
		deleted[i] = true
	}
	return events, nil
}

// compared is an object's row next to an expired object.
type compared struct {
	// whether the row still is the listed object, with the same tags: lifecycle rules may depend on them
	same bool
	// false if the body is in the row, so that no garbage results
	hasFiles bool
	// for the usage counters
	length int64
}

// compare reads a row without its body. A missing row is not the same.
func compare(c *sqlite.Conn, w write, o *buckets.Object) (now compared, err error) {
	err = sqlitedb.ForEach(c, sqlCompared, func(r *sqlite.Stmt) error {
		now.length, now.hasFiles = r.ColumnInt64(2), r.ColumnBool(4)
		if r.ColumnText(0) != string(o.ID) || r.ColumnInt64(1) != int64(o.Modified) {
			return nil
		}
		p, err := buckets.DecodeProperties(blob(r, 3))
		now.same = maps.Equal(p.Tags, o.Tags)
		return err
	}, w.owner, w.bucket, o.Name)
	return now, err
}

// Clock implements buckets.Lifecycles.
func (s *Store) Clock(context.Context) (buckets.Moment, error) { return systemTime(), nil }

// systemTime is the database's clock: SQLite has none that all its processes share. Object locks end by it.
func systemTime() buckets.Moment { return buckets.At(time.Now()) }
