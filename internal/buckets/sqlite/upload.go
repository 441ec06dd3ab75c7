package sqlite

import (
	"context"
	"errors"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
)

const (
	uploadColumns = `id, name, created, creator, content_type, headers, roles, properties`
	oneUpload     = ` FROM manta_bucket_upload WHERE owner = ?1 AND bucket_id = ?2 AND name = ?3 AND id = ?4`

	sqlUpload     = `SELECT ` + uploadColumns + oneUpload
	sqlAddUpload  = `INSERT INTO manta_bucket_upload (owner, bucket_id, ` + uploadColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlEndUpload  = `DELETE` + oneUpload
	sqlBuryUpload = `INSERT INTO manta_bucket_deleted_object
		(owner, bucket_id, id, name, created, modified, creator, content_length, content_type, properties, deleted_at)
		SELECT owner, bucket_id, id, name, created, created AS modified, creator, ?7, content_type, ?6, ?5` + oneUpload
	sqlListUploads = `SELECT ` + uploadColumns + ` FROM manta_bucket_upload WHERE owner = ?1 AND bucket_id = ?2
		AND (name, id) > (?3, ?4) ORDER BY name, id LIMIT +?5`
	sqlOldUploads = `SELECT owner, bucket_id, name, id FROM manta_bucket_upload WHERE created < ? ORDER BY created LIMIT +?`
	sqlOfBucket   = `SELECT owner, bucket_id, name, id FROM manta_bucket_upload WHERE owner = ? AND bucket_id = ? LIMIT +?`

	partColumns = `number, id, created, content_length, content_md5, checksum, sharks, start`
	sqlParts    = `SELECT ` + partColumns + ` FROM manta_bucket_part WHERE owner = ? AND upload_id = ? AND number > ? ORDER BY number LIMIT +?`
	sqlPart     = `SELECT ` + partColumns + ` FROM manta_bucket_part WHERE owner = ? AND upload_id = ? AND number = ?`
	sqlBodies   = `SELECT ` + partColumns + `, ` + sumColumns + `, NULL FROM manta_bucket_part WHERE owner = ?1 AND upload_id = ?2
		AND number > ?3 ORDER BY number LIMIT +?4`
	sqlMarkRestored = `UPDATE manta_bucket_upload SET properties = json_patch(coalesce(properties, '{}'), '{"s3":{"restored":true}}')`
	sqlSegments     = `SELECT ` + partColumns + `, ` + sumColumns + `, body FROM manta_bucket_part WHERE owner = ?1 AND upload_id = ?2
		AND start + content_length > ?3 ORDER BY number LIMIT +?4`
	sqlPutPart = `INSERT OR REPLACE INTO manta_bucket_part (owner, upload_id, bucket_id, name, ` + partColumns + `, content_crc64nvme, content_frames, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)`
	sqlStartPart = `UPDATE manta_bucket_part SET start = ?4 WHERE owner = ?1 AND upload_id = ?2 AND number = ?3`
	sqlBuryPart  = `INSERT INTO manta_bucket_deleted_object
		(owner, bucket_id, id, name, created, modified, content_length, content_md5, sharks, deleted_at)
		SELECT owner, bucket_id, id, name, created, created AS modified, content_length, content_md5, sharks, ?4
		FROM manta_bucket_part WHERE owner = ?1 AND upload_id = ?2 AND number = ?3`
	sqlDeletePart  = `DELETE FROM manta_bucket_part WHERE owner = ? AND upload_id = ? AND number = ?`
	sqlUploadBytes = `SELECT coalesce(sum(content_length), 0) FROM manta_bucket_part WHERE owner = ? AND upload_id = ?`
)

// scanUpload reads uploadColumns.
func scanUpload(r *sqlite.Stmt) (u buckets.Upload, err error) {
	u = buckets.Upload{
		ID: buckets.UploadID(r.ColumnText(0)), Name: r.ColumnText(1), Created: buckets.Moment(r.ColumnInt64(2)),
		Creator: buckets.AccountID(r.ColumnText(3)), ContentType: r.ColumnText(4),
	}
	u.Properties, err = buckets.DecodeProperties(blob(r, 7))
	return u, errors.Join(err, column(r, 5, &u.Headers), column(r, 6, &u.Roles))
}

// scanPart reads partColumns.
func scanPart(r *sqlite.Stmt) (p buckets.Part, err error) {
	p = buckets.Part{
		Number: r.ColumnInt(0), Created: buckets.Moment(r.ColumnInt64(2)),
		Body: buckets.Body{ID: buckets.ObjectID(r.ColumnText(1)), Length: r.ColumnInt64(3), MD5: blob(r, 4)},
	}
	return p, errors.Join(column(r, 5, &p.Checksum), column(r, 6, &p.Sharks))
}

// parts reads the parts that a query returns.
func parts(c *sqlite.Conn, sql string, args ...any) (all []buckets.Part, err error) {
	err = sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
		p, err := scanPart(r)
		all = append(all, p)
		return err
	}, args...)
	return all, err
}

// segments reads parts with their position in the object, for reading and removing bodies.
func segments(c *sqlite.Conn, sql string, args ...any) (all []buckets.Segment, err error) {
	err = sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
		p, err := scanPart(r)
		sums(r, 8, &p.Body)
		p.Inline = blob(r, 11)
		all = append(all, buckets.Segment{Body: p.Body, Number: p.Number, Start: r.ColumnInt64(7), Checksum: p.Checksum})
		return err
	}, args...)
	return all, err
}

// upload returns ErrNoUpload if the upload ended or belongs to another bucket.
func upload(c *sqlite.Conn, k buckets.UploadKey) (u buckets.Upload, err error) {
	err = sqlitedb.ForEach(c, sqlUpload, func(r *sqlite.Stmt) error {
		u, err = scanUpload(r)
		return err
	}, k.Owner, k.Bucket.ID, k.Name, k.ID)
	if err == nil && u.ID == "" {
		err = buckets.ErrNoUpload
	}
	return u, err
}

// CreateUpload implements buckets.Uploads.
func (s *Store) CreateUpload(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, u buckets.Upload) error {
	if err := owner.Check(); err != nil {
		return err
	}
	headers, roles, _, properties, err := values(u.Headers, u.Roles, nil, u.Properties)
	if err != nil {
		return err
	}
	return s.db.WriteChecked(ctx, "create_upload", func(c *sqlite.Conn) error {
		return hasBucket(c, owner, b)
	}, func(c *sqlite.Conn) error {
		return sqlitedb.Exec(c, sqlAddUpload, owner, b.ID, u.ID, u.Name, u.Created, orNull(u.Creator), u.ContentType, headers, roles, properties)
	})
}

// Upload implements buckets.Uploads.
func (s *Store) Upload(ctx context.Context, k buckets.UploadKey) (u buckets.Upload, err error) {
	if err := k.Owner.Check(); err != nil {
		return u, err
	}
	err = s.db.Read(ctx, "upload", func(c *sqlite.Conn) error {
		u, err = upload(c, k)
		return err
	})
	return u, err
}

// PutPart implements buckets.Uploads.
func (s *Store) PutPart(ctx context.Context, k buckets.UploadKey, p buckets.Part) error {
	if err := k.Owner.Check(); err != nil {
		return err
	}
	sharks, err1 := jsonOrNull(p.Sharks, len(p.Sharks))
	sum, err2 := jsonOrNull(p.Checksum, len(p.Checksum.Algorithm))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var old []buckets.Part
	var delta buckets.Usage
	return s.db.WriteChecked(ctx, "put_part", func(c *sqlite.Conn) error {
		if err := hasBucket(c, k.Owner, k.Bucket); err != nil {
			return err
		}
		_, err := upload(c, k)
		if err != nil {
			return err
		}
		if err := notRemoved(c, p.Sharks, nil); err != nil {
			return err
		}
		if old, err = parts(c, sqlPart, k.Owner, k.ID, p.Number); err != nil {
			return err
		}
		delta = buckets.Usage{Bytes: p.Length}
		for i := range old {
			delta.Bytes -= old[i].Length
		}
		return checkQuota(c, k.Owner, k.Bucket.ID, delta)
	}, func(c *sqlite.Conn) error {
		if len(old) > 0 {
			if err := sqlitedb.Exec(c, sqlBuryPart, k.Owner, k.ID, p.Number, p.Created); err != nil {
				return err
			}
		}
		if err := addUsage(c, k.Owner, k.Bucket.ID, delta); err != nil {
			return err
		}
		crc64, frames := orNulls(p.Frames)
		return sqlitedb.Exec(c, sqlPutPart, k.Owner, k.ID, k.Bucket.ID, k.Name, p.Number, p.ID, p.Created, p.Length, p.MD5, sum, sharks, crc64, frames, bytesOrNull(p.Inline))
	})
}

// Parts implements buckets.Uploads.
func (s *Store) Parts(ctx context.Context, k buckets.UploadKey, after, limit int) (page []buckets.Part, more bool, err error) {
	if err := k.Owner.Check(); err != nil {
		return nil, false, err
	}
	err = s.db.Read(ctx, "parts", func(c *sqlite.Conn) error {
		if _, err := upload(c, k); err != nil {
			return err
		}
		page, err = parts(c, sqlParts, k.Owner, k.ID, after, limit+1)
		return err
	})
	if len(page) > limit {
		return page[:limit], true, err
	}
	return page, false, err
}

// ListUploads implements lifecycle.Store.
func (s *Store) ListUploads(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, q buckets.UploadQuery) (page buckets.UploadPage, err error) {
	if err := owner.Check(); err != nil {
		return page, err
	}
	err = s.db.Read(ctx, "list_uploads", func(c *sqlite.Conn) error {
		l := buckets.NewUploadLister(q)
		for name, id := l.From(); ; {
			var skip, done bool
			err := sqlitedb.ForEach(c, sqlListUploads, func(r *sqlite.Stmt) error {
				u, err := scanUpload(r)
				if err != nil {
					return err
				}
				if name, id, skip, done = l.Add(u); skip || done {
					return errStop
				}
				return nil
			}, owner, b, name, id, q.Limit+1)
			if err != nil && !errors.Is(err, errStop) {
				return err
			}
			if !skip {
				page = l.Page()
				return nil
			}
		}
	})
	return page, err
}

// Complete implements buckets.Uploads.
func (s *Store) Complete(ctx context.Context, k buckets.UploadKey, done buckets.Completion) (buckets.Written, error) {
	if err := k.Owner.Check(); err != nil {
		return buckets.Written{}, err
	}
	w := &write{owner: k.Owner, ref: k.Bucket, name: k.Name, now: done.Now}
	var a buckets.Assembly
	var o buckets.Object
	var repeated bool
	var events []buckets.Event
	err := s.db.WriteChecked(ctx, "complete_upload", func(c *sqlite.Conn) error {
		a, o, repeated = buckets.Assembly{}, buckets.Object{}, false
		if err := hasBucket(c, k.Owner, k.Bucket); err != nil {
			return err
		}
		u, err := upload(c, k)
		if errors.Is(err, buckets.ErrNoUpload) {
			if o, err = completed(c, k); err != nil {
				return err
			}
			repeated = true
			w.bucketState, err = findBucket(c, k.Owner, k.Bucket)
			return err
		}
		if err != nil {
			return err
		}
		stored, err := parts(c, sqlParts, k.Owner, k.ID, 0, buckets.MaxParts)
		if err != nil {
			return err
		}
		if a, err = buckets.Assemble(stored, done.Parts, done.MinPart); err != nil {
			return err
		}
		if o, err = a.Object(u, done); err != nil {
			return err
		}
		if err := w.check(c, &done.Condition); err != nil {
			return err
		}
		if err := w.locks(&o); err != nil {
			return err
		}
		return w.adds(c, buckets.Usage{Objects: 1, Bytes: -a.UnusedBytes()})
	}, func(c *sqlite.Conn) error {
		if repeated {
			return nil
		}
		if err := complete(c, w, k.ID, &a, &o); err != nil {
			return err
		}
		events = done.Notice.OfWritten(w.written(o), done.Now)
		return s.append(c, k.Owner, events)
	})
	if err == nil {
		s.appended(k.Owner, events)
	}
	r := w.written(o)
	r.Replaced = w.found && !repeated
	return r, err
}

// completed returns the current object if this upload made it: a client that repeats CompleteMultipartUpload gets the
// same answer. Otherwise it returns ErrNoUpload.
func completed(c *sqlite.Conn, k buckets.UploadKey) (buckets.Object, error) {
	o, found, err := object(c, sqlHead, k.Owner, k.Bucket.ID, k.Name)
	if err == nil && (!found || o.Upload != k.ID) {
		err = buckets.ErrNoUpload
	}
	return o, err
}

// complete writes the object, keeps the parts in it with their offsets, and makes the unused ones garbage. The usage
// counters already include the parts.
func complete(c *sqlite.Conn, w *write, id buckets.UploadID, a *buckets.Assembly, o *buckets.Object) error {
	if err := w.replace(c, o); err != nil {
		return err
	}
	for i := range a.Unused {
		if err := sqlitedb.Exec(c, sqlBuryPart, w.owner, id, a.Unused[i].Number, w.now); err != nil {
			return err
		}
		if err := sqlitedb.Exec(c, sqlDeletePart, w.owner, id, a.Unused[i].Number); err != nil {
			return err
		}
	}
	for i := range a.Used {
		if err := sqlitedb.Exec(c, sqlStartPart, w.owner, id, a.Used[i].Number, a.Used[i].Start); err != nil {
			return err
		}
	}
	if err := w.put(c, o); err != nil {
		return err
	}
	return sqlitedb.Exec(c, sqlEndUpload, w.owner, w.bucket, w.name, id)
}

// Abort implements lifecycle.Store.
func (s *Store) Abort(ctx context.Context, k buckets.UploadKey, now buckets.Moment) error {
	if err := k.Owner.Check(); err != nil {
		return err
	}
	return s.db.WriteChecked(ctx, "abort_upload", func(c *sqlite.Conn) error {
		_, err := upload(c, k)
		return err
	}, func(c *sqlite.Conn) error {
		return abort(c, k, now)
	})
}

// scanUploadKey leaves the bucket's name empty.
func scanUploadKey(r *sqlite.Stmt) buckets.UploadKey {
	return buckets.UploadKey{
		Owner: buckets.AccountID(r.ColumnText(0)), Bucket: buckets.BucketRef{ID: buckets.BucketID(r.ColumnText(1))}, Name: r.ColumnText(2), ID: buckets.UploadID(r.ColumnText(3)),
	}
}

// abort makes an upload garbage with all parts, and takes their bytes off the usage.
func abort(c *sqlite.Conn, k buckets.UploadKey, now buckets.Moment) error {
	n, _, err := sqlitedb.QueryRow(c, sqlUploadBytes, func(r *sqlite.Stmt) int64 { return r.ColumnInt64(0) }, k.Owner, k.ID)
	if err != nil {
		return err
	}
	if err := addUsage(c, k.Owner, k.Bucket.ID, buckets.Usage{Bytes: -n}); err != nil {
		return err
	}
	p := buckets.Properties{Upload: k.ID}
	text, err := p.Encode()
	if err != nil {
		return err
	}
	if err := sqlitedb.Exec(c, sqlBuryUpload, k.Owner, k.Bucket.ID, k.Name, k.ID, now, string(text), n); err != nil {
		return err
	}
	return sqlitedb.Exec(c, sqlEndUpload, k.Owner, k.Bucket.ID, k.Name, k.ID)
}

// MarkRestored implements buckets.Uploads.
func (s *Store) MarkRestored(ctx context.Context) error {
	return s.db.Write(ctx, "mark_restored_uploads", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sqlMarkRestored) })
}

// AbortOld implements buckets.Uploads.
func (s *Store) AbortOld(ctx context.Context, before, now buckets.Moment, limit int) (n int, err error) {
	err = s.db.Write(ctx, "abort_old_uploads", func(c *sqlite.Conn) error {
		n, err = abortAll(c, now, sqlOldUploads, before, limit)
		return err
	})
	return n, err
}

// abortAll aborts the uploads that a query returns, and counts them.
func abortAll(c *sqlite.Conn, now buckets.Moment, sql string, args ...any) (int, error) {
	keys, err := sqlitedb.QueryAll(c, sql, scanUploadKey, args...)
	if err != nil {
		return 0, err
	}
	for _, k := range keys {
		if err := abort(c, k, now); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}

// UploadBodies implements buckets.Collector.
func (s *Store) UploadBodies(ctx context.Context, owner buckets.AccountID, u buckets.UploadID, after, limit int) (all []buckets.Segment, err error) {
	if err := owner.Check(); err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, "upload_bodies", func(c *sqlite.Conn) error {
		all, err = segments(c, sqlBodies, owner, u, int64(after), limit)
		return err
	})
	return all, err
}
