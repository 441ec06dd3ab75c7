package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
)

const (
	keptColumns = objectColumns + `, content_crc32c, content_crc64nvme, content_frames, body`
	ofName      = ` FROM manta_bucket_version WHERE owner = ?1 AND bucket_id = ?2 AND name = ?3`
	oneVersion  = ofName + ` AND version = ?4`
	nullVersion = ofName + ` AND null_version`

	sqlSetVersioning = `UPDATE manta_bucket SET versioning = ?4 WHERE owner = ?1 AND name = ?2 AND id = ?3`
	sqlSetLock       = `UPDATE manta_bucket SET object_lock = ?4 WHERE owner = ?1 AND name = ?2 AND id = ?3`

	versionColumns = objectColumns + `, version, null_version, marker, coalesce(superseded, 0)`
	sqlNewest      = `SELECT ` + versionColumns + ofName + ` ORDER BY version LIMIT 1`
	sqlNull        = `SELECT ` + versionColumns + nullVersion
	sqlVersion     = `SELECT ` + versionColumns + oneVersion
	sqlVersionBody = `SELECT ` + sumColumns + `, body` + oneVersion

	sqlKeep = `INSERT INTO manta_bucket_version (owner, bucket_id, version, null_version, marker, superseded, ` + keptColumns + `)
		SELECT owner, bucket_id, ?4, ?5, 0, ?6, ` + keptColumns + oneObject
	sqlAddMarker = `INSERT INTO manta_bucket_version (owner, bucket_id, name, version, null_version, marker, id, created, modified, properties)
		VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?7, ?8)`
	sqlPassMarker   = `UPDATE manta_bucket_version SET superseded = ?4 WHERE owner = ?1 AND bucket_id = ?2 AND name = ?3 AND version = ?5 AND superseded IS NULL`
	sqlRevealMarker = `UPDATE manta_bucket_version SET superseded = NULL WHERE owner = ?1 AND bucket_id = ?2 AND name = ?3 AND version = ?4`
	sqlReveal       = `INSERT INTO manta_bucket_object (owner, bucket_id, ` + keptColumns + `) SELECT owner, bucket_id, ` + keptColumns + oneVersion
	sqlBuryVersion  = `INSERT INTO manta_bucket_deleted_object (owner, bucket_id, ` + objectColumns + `, deleted_at)
		SELECT owner, bucket_id, ` + objectColumns + `, ?5` + oneVersion
	sqlDeleteVersion = `DELETE` + oneVersion
	sqlUpdateVersion = `UPDATE manta_bucket_version SET modified = ?5, content_type = ?6, headers = ?7, roles = ?8, properties = ?9
		WHERE owner = ?1 AND bucket_id = ?2 AND name = ?3 AND version = ?4`

	sqlListVersions = `SELECT ` + versionColumns + ` FROM manta_bucket_version
		WHERE owner = ?1 AND bucket_id = ?2 AND (name, version) > (?3, ?4) ORDER BY name, version LIMIT +?5`
)

// kept is a noncurrent version, or a delete marker, as a row in manta_bucket_version.
type kept struct {
	buckets.Version
	key buckets.VersionID
}

// scanKept reads keptColumns.
func scanKept(r *sqlite.Stmt) (k kept, err error) {
	k.Object, err = scanObject(r)
	k.key, k.Marker, k.Superseded = buckets.VersionID(r.ColumnText(12)), r.ColumnBool(14), buckets.Moment(r.ColumnInt64(15))
	k.Current = k.Marker && k.Superseded == 0
	return k, err
}

// readKept returns nil without a row.
func readKept(c *sqlite.Conn, sql string, args ...any) (version *kept, err error) {
	err = sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
		k, err := scanKept(r)
		version = &k
		return err
	}, args...)
	return version, err
}

// SetVersioning implements buckets.Versions.
func (s *Store) SetVersioning(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, v buckets.Versioning) error {
	if err := owner.Check(); err != nil {
		return err
	}
	if v != buckets.VersioningEnabled && v != buckets.VersioningSuspended {
		return buckets.ErrVersioning
	}
	defer s.cache.changed(bucketName{owner, b.Name})
	return s.db.WriteChecked(ctx, "set_versioning", func(c *sqlite.Conn) error {
		if err := hasBucket(c, owner, b); err != nil {
			return err
		}
		k, err := findBucket(c, owner, b)
		if err == nil && k.lock.Enabled && v != buckets.VersioningEnabled {
			err = buckets.ErrLockVersioning
		}
		return err
	}, func(c *sqlite.Conn) error {
		return sqlitedb.Exec(c, sqlSetVersioning, owner, b.Name, b.ID, int64(v))
	})
}

// SetBucketLock implements buckets.Versions.
func (s *Store) SetBucketLock(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, l buckets.BucketLock) error {
	if err := owner.Check(); err != nil {
		return err
	}
	text, err := l.Encode()
	if err != nil {
		return err
	}
	defer s.cache.changed(bucketName{owner, b.Name})
	return s.db.WriteChecked(ctx, "set_bucket_lock", func(c *sqlite.Conn) error {
		if err := hasBucket(c, owner, b); err != nil {
			return err
		}
		k, err := findBucket(c, owner, b)
		if err == nil && k.versioning != buckets.VersioningEnabled {
			err = buckets.ErrLockVersioning
		}
		return err
	}, func(c *sqlite.Conn) error {
		return sqlitedb.Exec(c, sqlSetLock, owner, b.Name, b.ID, text)
	})
}

// findVersion looks among the noncurrent versions of the write's name. It returns nil if none matches.
func (w *write) findVersion(c *sqlite.Conn, id buckets.VersionID) (*kept, error) {
	return findKept(c, w.owner, w.bucket, w.name, id)
}

// findKept returns nil if the version does not exist.
func findKept(c *sqlite.Conn, owner buckets.AccountID, b buckets.BucketID, name string, id buckets.VersionID) (k *kept, err error) {
	if id == buckets.NullVersion {
		return readKept(c, sqlNull, owner, b, name)
	}
	if k, err = readKept(c, sqlVersion, owner, b, name, id); k != nil && k.VersionID() != id {
		return nil, err // clients use another ID for a null version
	}
	return k, err
}

// keep makes the current object noncurrent, or garbage if it is a null version that is being replaced, and returns
// the new version's ID. It does not delete the current row.
func (w *write) keep(c *sqlite.Conn, id buckets.ObjectID) (key buckets.VersionID, err error) {
	newest, err := readKept(c, sqlNewest, w.owner, w.bucket, w.name)
	if err != nil {
		return "", err
	}
	var last buckets.VersionID
	if newest != nil {
		last = newest.key
	}
	switch {
	case w.found && w.replacesNull() && w.old.Version == "":
		err = sqlitedb.Exec(c, sqlBuryObject, w.owner, w.bucket, w.name, w.now)
	case w.found:
		if w.old.Version == "" {
			last = buckets.NewVersionID(w.old.Created, last, w.old.ID)
		} else {
			last = w.old.Version
		}
		err = sqlitedb.Exec(c, sqlKeep, w.owner, w.bucket, w.name, last, w.old.Version == "", w.moment())
	case newest != nil:
		err = sqlitedb.Exec(c, sqlPassMarker, w.owner, w.bucket, w.name, w.moment(), newest.key)
	}
	if err == nil && w.null != nil {
		err = w.drop(c, w.null)
	}
	return buckets.NewVersionID(w.now, last, id), err
}

// moment orders versions: by the time at an import's source, or else by now.
func (w *write) moment() buckets.Moment { return cmp.Or(w.past, w.now) }

// replacesNull reports whether new versions are null versions, as S3 defines for suspended versioning.
func (w *write) replacesNull() bool { return w.versioning == buckets.VersioningSuspended }

// drop removes a noncurrent version. Its body becomes garbage; markers have none.
func (w *write) drop(c *sqlite.Conn, k *kept) error {
	if !k.Marker {
		if err := sqlitedb.Exec(c, sqlBuryVersion, w.owner, w.bucket, w.name, k.key, w.now); err != nil {
			return err
		}
	}
	return sqlitedb.Exec(c, sqlDeleteVersion, w.owner, w.bucket, w.name, k.key)
}

// mark puts a delete marker in place of the current object.
func (w *write) mark(c *sqlite.Conn) (buckets.Deleted, error) {
	id := buckets.ObjectID(buckets.NewUUID())
	key, err := w.keep(c, id)
	if err != nil {
		return buckets.Deleted{}, err
	}
	m := buckets.Object{Properties: buckets.Properties{Imported: w.past}}
	if !w.replacesNull() {
		m.Version = key
	}
	text, err := m.Properties.Encode()
	if err != nil {
		return buckets.Deleted{}, err
	}
	var properties any
	if text != nil {
		properties = string(text)
	}
	return buckets.Deleted{Object: w.old, Version: m.VersionID(), Marker: true}, errors.Join(
		sqlitedb.Exec(c, sqlDeleteObject, w.owner, w.bucket, w.name),
		sqlitedb.Exec(c, sqlAddMarker, w.owner, w.bucket, w.name, key, w.replacesNull(), id, w.moment(), properties),
		addUsage(c, w.owner, w.bucket, w.delta),
	)
}

// reveal makes the newest noncurrent version current, after the current one was deleted.
func (w *write) reveal(c *sqlite.Conn) error {
	newest, err := readKept(c, sqlNewest, w.owner, w.bucket, w.name)
	switch {
	case err != nil || newest == nil:
		return err
	case newest.Marker:
		return sqlitedb.Exec(c, sqlRevealMarker, w.owner, w.bucket, w.name, newest.key)
	}
	return errors.Join(
		sqlitedb.Exec(c, sqlReveal, w.owner, w.bucket, w.name, newest.key),
		sqlitedb.Exec(c, sqlDeleteVersion, w.owner, w.bucket, w.name, newest.key))
}

// deleteVersion implements Delete for a version ID. A missing version is no error: S3 answers 204.
func (s *Store) deleteVersion(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, d buckets.Delete) (done buckets.Deleted, err error) {
	w := &write{owner: owner, ref: b, name: d.Name, now: d.Now}
	var k *kept
	var events []buckets.Event
	err = s.db.WriteChecked(ctx, "delete_version", func(c *sqlite.Conn) error {
		done, k = buckets.Deleted{Version: d.Version}, nil
		if err := w.check(c, nil); err != nil {
			return err
		}
		if w.found && w.old.VersionID() == d.Version {
			if done.Object = w.old; d.Noncurrent {
				return buckets.ErrPrecondition
			}
		} else {
			if k, err = w.findVersion(c, d.Version); err != nil {
				return err
			}
			switch {
			case k == nil:
				return buckets.ErrNoVersion
			case k.Current && d.Noncurrent:
				return buckets.ErrPrecondition
			}
			if done.Marker = k.Marker; k.Marker {
				return d.Condition.CheckWrite(nil)
			}
			done.Object = k.Object
		}
		return checkDelete(&d, &done.Object)
	}, func(c *sqlite.Conn) (err error) {
		if k == nil {
			err = errors.Join(sqlitedb.Exec(c, sqlBuryObject, w.owner, w.bucket, w.name, w.now), sqlitedb.Exec(c, sqlDeleteObject, w.owner, w.bucket, w.name))
		} else {
			err = w.drop(c, k)
		}
		if err == nil && (k == nil || k.Current) {
			err = w.reveal(c)
		}
		events = d.Notice.OfDeletedVersion(d.Name, d.Version, d.Now)
		return errors.Join(err, addUsage(c, w.owner, w.bucket, buckets.Usage{Objects: -1, Bytes: -done.Object.Length}), s.append(c, owner, events))
	})
	if err != nil {
		return buckets.Deleted{}, err
	}
	s.appended(owner, events)
	return done, nil
}

// checkDelete checks conditions and the object lock for the version to delete.
func checkDelete(d *buckets.Delete, o *buckets.Object) error {
	if err := d.Condition.CheckWrite(o); err != nil {
		return err
	}
	if err := d.CheckUnchanged(o); err != nil {
		return err
	}
	return o.Lock.Check(systemTime(), d.Bypass)
}

// Version implements buckets.Versions.
func (s *Store) Version(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, name string, id buckets.VersionID) (v buckets.Version, err error) {
	if err := owner.Check(); err != nil {
		return v, err
	}
	err = s.db.Read(ctx, "version", func(c *sqlite.Conn) error {
		o, found, err := object(c, sqlObject, owner, b, name)
		if err != nil {
			return err
		}
		if found && (id == "" || o.VersionID() == id) {
			v = buckets.Version{Object: o, Current: true}
			return nil
		}
		var k *kept
		if id == "" {
			k, err = readKept(c, sqlNewest, owner, b, name)
		} else {
			k, err = findKept(c, owner, b, name, id)
		}
		switch {
		case err != nil:
			return err
		case k == nil && id == "":
			return buckets.ErrNoObject
		case k == nil:
			return buckets.ErrNoVersion
		}
		v = k.Version
		return sqlitedb.ForEach(c, sqlVersionBody, func(r *sqlite.Stmt) error {
			sums(r, 0, &v.Body)
			v.Inline = blob(r, 3)
			return nil
		}, owner, b, name, k.key)
	})
	return v, err
}

// ListVersions implements lifecycle.Store.
func (s *Store) ListVersions(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, q buckets.VersionQuery) (page buckets.VersionPage, err error) {
	if err := owner.Check(); err != nil {
		return page, err
	}
	err = s.db.Read(ctx, "list_versions", func(c *sqlite.Conn) error {
		null := buckets.FirstVersion
		if q.AfterVersion == buckets.NullVersion {
			k, err := readKept(c, sqlNull, owner, b, q.After)
			if err != nil {
				return err
			}
			if k != nil {
				null = k.key
			}
		}
		page, err = buckets.NewVersionLister(q, null).Fill(func(from buckets.VersionPosition, limit int, add func(buckets.Version, buckets.VersionID) bool) (int, error) {
			rows, err := keptFrom(c, versionScope{owner, b, q.Noncurrent}, from, limit)
			for i := range rows {
				if !add(rows[i].Version, rows[i].key) {
					break
				}
			}
			return len(rows), err
		})
		return err
	})
	return page, err
}

// versionScope selects versions for a list.
type versionScope struct {
	owner  buckets.AccountID
	bucket buckets.BucketID
	// leave out current objects
	noncurrent bool
}

// keptFrom reads versions from a position on. A name's current object comes before its noncurrent versions.
func keptFrom(c *sqlite.Conn, p versionScope, from buckets.VersionPosition, limit int) ([]kept, error) {
	sql := sqlListAll
	if from.Inclusive {
		sql = sqlListAllFrom
	}
	var all []kept
	if !p.noncurrent {
		err := sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
			o, err := scanObject(r)
			all = append(all, kept{Version: buckets.Version{Object: o, Current: true}})
			return err
		}, p.owner, p.bucket, from.Name, limit)
		if err != nil {
			return nil, err
		}
	}
	err := sqlitedb.ForEach(c, sqlListVersions, func(r *sqlite.Stmt) error {
		k, err := scanKept(r)
		all = append(all, k)
		return err
	}, p.owner, p.bucket, from.Name, from.Noncurrent(), limit)
	slices.SortFunc(all, func(a, b kept) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.key), string(b.key)))
	})
	return all[:min(limit, len(all))], err
}
