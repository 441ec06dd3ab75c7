package sqlite

import (
	"cmp"
	"context"
	"errors"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
)

const (
	objectColumns = `id, name, created, modified, creator, content_length, content_md5, content_type, headers, roles, sharks, properties`
	oneObject     = ` FROM manta_bucket_object WHERE owner = ?1 AND bucket_id = ?2 AND name = ?3`

	sqlObject = `SELECT ` + objectColumns + `, ` + sumColumns + `, body` + oneObject
	// The body is not read, because large rows are slow to read.
	sqlHead      = `SELECT ` + objectColumns + oneObject
	sqlPutObject = `INSERT OR REPLACE INTO manta_bucket_object (owner, bucket_id, ` + objectColumns + `, content_crc64nvme, content_frames, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlUpdateObject = `UPDATE manta_bucket_object SET modified = ?4, content_type = ?5, headers = ?6, roles = ?7, properties = ?8
		WHERE owner = ?1 AND bucket_id = ?2 AND name = ?3`
	sqlBuryObject = `INSERT INTO manta_bucket_deleted_object (owner, bucket_id, ` + objectColumns + `, deleted_at)
		SELECT owner, bucket_id, ` + objectColumns + `, ?4` + oneObject
	sqlDeleteObject = `DELETE` + oneObject

	listColumns    = `id, name, created, modified, creator, content_length, content_md5, content_type, properties`
	sqlList        = `SELECT ` + listColumns + ` FROM manta_bucket_object WHERE owner = ?1 AND bucket_id = ?2 AND name > ?3 ORDER BY name LIMIT +?4`
	sqlListFrom    = `SELECT ` + listColumns + ` FROM manta_bucket_object WHERE owner = ?1 AND bucket_id = ?2 AND name >= ?3 ORDER BY name LIMIT +?4`
	sqlListAll     = `SELECT ` + objectColumns + ` FROM manta_bucket_object WHERE owner = ?1 AND bucket_id = ?2 AND name > ?3 ORDER BY name LIMIT +?4`
	sqlListAllFrom = `SELECT ` + objectColumns + ` FROM manta_bucket_object WHERE owner = ?1 AND bucket_id = ?2 AND name >= ?3 ORDER BY name LIMIT +?4`
	// sqlNextName reads only the index.
	sqlNextName = `SELECT name FROM manta_bucket_object WHERE owner = ?1 AND bucket_id = ?2 AND name >= ?3 ORDER BY name LIMIT 1`
)

// scanObject reads objectColumns.
func scanObject(r *sqlite.Stmt) (o buckets.Object, err error) {
	o = buckets.Object{
		Name: r.ColumnText(1), Created: buckets.Moment(r.ColumnInt64(2)), Modified: buckets.Moment(r.ColumnInt64(3)),
		Creator: buckets.AccountID(r.ColumnText(4)), ContentType: r.ColumnText(7),
		Body: buckets.Body{ID: buckets.ObjectID(r.ColumnText(0)), Length: r.ColumnInt64(5), MD5: blob(r, 6)},
	}
	o.Properties, err = buckets.DecodeProperties(blob(r, 11))
	return o, errors.Join(err, column(r, 8, &o.Headers), column(r, 9, &o.Roles), column(r, 10, &o.Sharks))
}

// scanListed reads the columns for lists, without metadata, roles and nodes: most pages do not need them.
func scanListed(r *sqlite.Stmt) (o buckets.Object, err error) {
	o = buckets.Object{
		Name: r.ColumnText(1), Created: buckets.Moment(r.ColumnInt64(2)), Modified: buckets.Moment(r.ColumnInt64(3)),
		Creator: buckets.AccountID(r.ColumnText(4)), ContentType: r.ColumnText(7),
		Body: buckets.Body{ID: buckets.ObjectID(r.ColumnText(0)), Length: r.ColumnInt64(5), MD5: blob(r, 6)},
	}
	if !r.ColumnIsNull(8) {
		o.Properties, err = buckets.DecodeProperties(blob(r, 8))
	}
	return o, err
}

// object reads a row, if there is any. Queries with more columns than objectColumns also return the checksums and the
// body in the row.
func object(c *sqlite.Conn, sql string, owner buckets.AccountID, b buckets.BucketID, name string) (o buckets.Object, found bool, err error) {
	err = sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) (err error) {
		found = true
		if o, err = scanObject(r); err == nil && r.ColumnCount() > 12 {
			sums(r, 12, &o.Body)
			o.Inline = blob(r, 15)
		}
		return err
	}, owner, b, name)
	return o, found, err
}

// values encodes an object's members for the database, NULL if empty.
func values(headers map[string]string, roles, sharks []string, p buckets.Properties) (h, r, s, properties any, err error) {
	h, err1 := jsonOrNull(headers, len(headers))
	r, err2 := jsonOrNull(roles, len(roles))
	s, err3 := jsonOrNull(sharks, len(sharks))
	text, err4 := p.Encode()
	if text != nil {
		properties = string(text)
	}
	return h, r, s, properties, errors.Join(err1, err2, err3, err4)
}

// write is a change to an object's name in a transaction: first check, then put, mark or a deletion.
type write struct {
	owner buckets.AccountID
	// the bucket as the caller knows it; check turns it into bucketState
	ref buckets.BucketRef
	bucketState
	name string
	// the service's time; sets modification, deletion and supersession times
	now  buckets.Moment
	past buckets.Moment // time at the source if imported, otherwise 0

	// the current object, if found
	old   buckets.Object
	found bool
	null  *kept // noncurrent null version or null delete marker that the write replaces
	// the change to the bucket's and the account's usage so far
	delta buckets.Usage
}

// check reads the object and performs the checks that all writes need. If condition is nil, the caller checks it.
func (w *write) check(c *sqlite.Conn, condition *buckets.Condition) error {
	var err error
	if w.bucketState, err = findBucket(c, w.owner, w.ref); err != nil {
		return err
	}
	if w.old, w.found, err = object(c, sqlHead, w.owner, w.bucket, w.name); err != nil {
		return err
	}
	w.delta, w.null = buckets.Usage{}, nil
	if w.found && (w.versioning == buckets.VersioningOff || w.replacesNull() && w.old.Version == "") {
		w.delta = buckets.Usage{Objects: -1, Bytes: -w.old.Length}
	}
	if w.replacesNull() {
		if w.null, err = readKept(c, sqlNull, w.owner, w.bucket, w.name); err != nil {
			return err
		}
		if w.null != nil {
			w.delta = w.delta.Plus(buckets.Usage{Objects: -1, Bytes: -w.null.Length})
		}
	}
	switch {
	case condition == nil:
		return nil
	case w.found:
		return condition.CheckWrite(&w.old)
	}
	return condition.CheckWrite(nil)
}

// checkNull returns a *LockedError if the write would replace a locked null version. Versions with an ID only get
// superseded.
func (w *write) checkNull() error {
	switch {
	case !w.replacesNull():
		return nil
	case w.null != nil:
		return w.null.Lock.Check(systemTime(), false)
	case w.found && w.old.Version == "":
		return w.old.Lock.Check(systemTime(), false)
	}
	return nil
}

// locks checks the lock of a version that o replaces, and gives o its own: as requested, or the bucket's default.
func (w *write) locks(o *buckets.Object) (err error) {
	if err := w.checkNull(); err != nil {
		return err
	}
	o.Lock, err = w.lock.Apply(o.Lock, systemTime())
	return err
}

// adds counts u and returns a *QuotaError if the sum exceeds a quota. Call it before any change.
func (w *write) adds(c *sqlite.Conn, u buckets.Usage) error {
	w.delta = w.delta.Plus(u)
	return checkQuota(c, w.owner, w.bucket, w.delta)
}

// replace removes or keeps the old object before o takes its place, gives o a version ID if the bucket has versions,
// and writes the usage counters.
func (w *write) replace(c *sqlite.Conn, o *buckets.Object) error {
	o.Version = ""
	if w.versioning != buckets.VersioningOff {
		key, err := w.keep(c, o.ID)
		if err != nil {
			return err
		}
		if !w.replacesNull() {
			o.Version = key
		}
		return addUsage(c, w.owner, w.bucket, w.delta)
	}
	return w.bury(c)
}

// bury makes the old object garbage, in a bucket without versions.
func (w *write) bury(c *sqlite.Conn) error {
	if w.found {
		if err := sqlitedb.Exec(c, sqlBuryObject, w.owner, w.bucket, w.name, w.now); err != nil {
			return err
		}
	}
	return addUsage(c, w.owner, w.bucket, w.delta)
}

// written returns the result for the caller.
func (w *write) written(o buckets.Object) buckets.Written {
	r := buckets.Written{Object: o, Replaced: w.found}
	if w.versioning != buckets.VersioningOff {
		r.Version = o.VersionID()
	}
	return r
}

// put writes the row for o, in place of any old row.
func (w *write) put(c *sqlite.Conn, o *buckets.Object) error {
	headers, roles, sharks, properties, err := values(o.Headers, o.Roles, o.Sharks, o.Properties)
	if err != nil {
		return err
	}
	crc64, frames := orNulls(o.Frames)
	return sqlitedb.Exec(c, sqlPutObject, w.owner, w.bucket, o.ID, o.Name, o.Created, o.Modified, orNull(o.Creator), o.Length,
		bytesOrNull(o.MD5), o.ContentType, headers, roles, sharks, properties, crc64, frames, bytesOrNull(o.Inline))
}

// Put implements buckets.Store.
func (s *Store) Put(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, p buckets.Put) (buckets.Written, error) {
	if err := owner.Check(); err != nil {
		return buckets.Written{}, err
	}
	o := p.Stored()
	w := &write{owner: owner, ref: b, name: o.Name, now: p.Now, past: o.Imported}
	var events []buckets.Event
	err := s.db.WriteChecked(ctx, "put_object", func(c *sqlite.Conn) error {
		o.Lock = p.Object.Lock
		if err := w.check(c, &p.Condition); err != nil {
			return err
		}
		if err := w.locks(&o); err != nil {
			return err
		}
		if err := notRemoved(c, o.Sharks, nil); err != nil {
			return err
		}
		return w.adds(c, buckets.Usage{Objects: 1, Bytes: o.Length})
	}, func(c *sqlite.Conn) error {
		if err := w.replace(c, &o); err != nil {
			return err
		}
		if err := w.put(c, &o); err != nil {
			return err
		}
		events = p.Notice.OfWritten(w.written(o), p.Now)
		return s.append(c, owner, events)
	})
	o.Lock = p.Object.Lock
	if err == nil {
		s.appended(owner, events)
	}
	return w.written(o), err
}

// Get implements buckets.Store.
func (s *Store) Get(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, name string) (o buckets.Object, err error) {
	if err := owner.Check(); err != nil {
		return o, err
	}
	err = s.db.ReadOne(ctx, "get_object", func(c *sqlite.Conn) error {
		var found bool
		if o, found, err = object(c, sqlObject, owner, b, name); err == nil && !found {
			err = buckets.ErrNoObject
		}
		return err
	})
	return o, err
}

// Find implements buckets.Store.
func (s *Store) Find(ctx context.Context, owner buckets.AccountID, bucket, name string) (b buckets.Bucket, o buckets.Object, err error) {
	if b, err = s.Bucket(ctx, owner, bucket); err != nil {
		return b, o, err
	}
	// If the bucket is deleted now, it was empty before, so the result was correct at that time.
	o, err = s.Get(ctx, owner, b.ID, name)
	return b, o, err
}

// Update implements buckets.Store.
func (s *Store) Update(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, u buckets.Update) (o buckets.Object, err error) {
	if err := owner.Check(); err != nil {
		return o, err
	}
	w := &write{owner: owner, ref: b, name: u.Name, now: u.Now}
	var k *kept
	err = s.db.WriteChecked(ctx, "update_object", func(c *sqlite.Conn) error {
		k = nil
		if err := w.check(c, nil); err != nil {
			return err
		}
		if u.Version != "" && (!w.found || w.old.VersionID() != u.Version) {
			if k, err = w.findVersion(c, u.Version); err != nil {
				return err
			}
			switch {
			case k == nil:
				return buckets.ErrNoVersion
			case k.Marker:
				return buckets.ErrMarker
			}
			w.old = k.Object
		} else if !w.found {
			return cmp.Or(u.Condition.CheckWrite(nil), error(buckets.ErrNoObject))
		}
		if err := u.Condition.CheckWrite(&w.old); err != nil {
			return err
		}
		return u.ApplyLock(&w.old, w.lock, systemTime())
	}, func(c *sqlite.Conn) error {
		o = u.Apply(w.old)
		headers, roles, _, properties, err := values(o.Headers, o.Roles, nil, o.Properties)
		if err != nil {
			return err
		}
		if k != nil {
			return sqlitedb.Exec(c, sqlUpdateVersion, owner, b.ID, u.Name, k.key, o.Modified, o.ContentType, headers, roles, properties)
		}
		return sqlitedb.Exec(c, sqlUpdateObject, owner, b.ID, u.Name, o.Modified, o.ContentType, headers, roles, properties)
	})
	return o, err
}

// Delete implements buckets.Store.
func (s *Store) Delete(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, d buckets.Delete) (done buckets.Deleted, err error) {
	if err := owner.Check(); err != nil {
		return done, err
	}
	if d.Version != "" {
		return s.deleteVersion(ctx, owner, b, d)
	}
	w := &write{owner: owner, ref: b, name: d.Name, now: d.Now, past: d.Imported}
	var events []buckets.Event
	err = s.db.WriteChecked(ctx, "delete_object", func(c *sqlite.Conn) error {
		if err := w.check(c, &d.Condition); err != nil {
			return err
		}
		switch {
		case w.found:
			if err := d.CheckUnchanged(&w.old); err != nil {
				return err
			}
		case w.versioning == buckets.VersioningOff || d.Unchanged != nil:
			return buckets.ErrNoObject
		}
		if w.versioning != buckets.VersioningOff {
			return errors.Join(w.checkNull(), w.adds(c, buckets.Usage{Objects: 1}))
		}
		return nil
	}, func(c *sqlite.Conn) (err error) {
		if w.versioning != buckets.VersioningOff {
			done, err = w.mark(c)
		} else {
			done = buckets.Deleted{Object: w.old}
			err = errors.Join(w.bury(c), sqlitedb.Exec(c, sqlDeleteObject, owner, w.bucket, d.Name))
		}
		events = d.Notice.OfDeleted(d.Name, done, d.Now)
		return errors.Join(err, s.append(c, owner, events))
	})
	if err == nil {
		s.appended(owner, events)
	}
	return done, err
}

// deleters limits the concurrency of DeleteAll. Its commits are grouped with other writes, which one large write
// would delay.
const deleters = 16

// DeleteAll implements buckets.Store.
func (s *Store) DeleteAll(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, d buckets.Deletions) ([]buckets.Deleted, error) {
	if err := owner.Check(); err != nil {
		return nil, err
	}
	return buckets.DeleteEach(d.All, deleters, func(of buckets.Deletion) (buckets.Deleted, error) {
		return s.Delete(ctx, owner, b, d.Delete(&of))
	}), nil
}

// List implements buckets.Store.
func (s *Store) List(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, q buckets.Query) (page buckets.Page, err error) {
	if err := owner.Check(); err != nil {
		return page, err
	}
	err = s.db.Read(ctx, "list_objects", func(c *sqlite.Conn) error {
		l := buckets.NewLister(q)
		for from, more := l.From(), true; more; {
			if from, more, err = listFrom(c, objectQuery{owner, b, q}, l, from); err != nil {
				return err
			}
			if more {
				if from, more, err = listGroups(c, owner, b, l, from); err != nil {
					return err
				}
			}
		}
		page = l.Page()
		return nil
	})
	return page, err
}

// listGroups adds names to a Lister as long as they belong to groups, for which no rows are needed. It returns more =
// false if the page is complete; otherwise rows are needed from next on.
func listGroups(c *sqlite.Conn, owner buckets.AccountID, b buckets.BucketID, l *buckets.Lister, from buckets.Position) (next buckets.Position, more bool, err error) {
	stmt, err := sqlitedb.Bind(c, sqlNextName, owner, b, "")
	if err != nil {
		return from, false, err
	}
	defer func() { err = errors.Join(err, stmt.Reset()) }()
	for {
		if err := stmt.Reset(); err != nil {
			return from, false, err
		}
		stmt.BindText(3, from.Name)
		found, err := stmt.Step()
		if err != nil || !found {
			return from, false, err
		}
		name := stmt.ColumnText(0)
		var grouped, done bool
		from, grouped, done = l.AddGroup(name)
		switch {
		case done:
			return from, false, nil
		case !grouped:
			return buckets.Position{Name: name, Inclusive: true}, true, nil
		}
	}
}

// objectQuery selects objects for a list.
type objectQuery struct {
	owner  buckets.AccountID
	bucket buckets.BucketID
	buckets.Query
}

// listFrom adds rows to a Lister from a position on, until the page is complete or a group begins that listGroups can
// skip.
func listFrom(c *sqlite.Conn, q objectQuery, l *buckets.Lister, from buckets.Position) (next buckets.Position, more bool, err error) {
	after, inclusive, scan := sqlList, sqlListFrom, scanListed
	if q.Metadata {
		after, inclusive, scan = sqlListAll, sqlListAllFrom, scanObject
	}
	sql := after
	if from.Inclusive {
		sql = inclusive
	}
	err = sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
		o, err := scan(r)
		if err != nil {
			return err
		}
		var done bool
		if next, more, done = l.Add(o); more || done {
			return errStop
		}
		return nil
	}, q.owner, q.bucket, from.Name, q.Limit+1)
	if errors.Is(err, errStop) {
		err = nil
	}
	return next, more, err
}

// Segments implements buckets.Store.
func (s *Store) Segments(ctx context.Context, owner buckets.AccountID, u buckets.UploadID, from int64, limit int) (all []buckets.Segment, err error) {
	if err := owner.Check(); err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, "segments", func(c *sqlite.Conn) error {
		all, err = segments(c, sqlSegments, owner, u, from, limit)
		return err
	})
	return all, err
}
