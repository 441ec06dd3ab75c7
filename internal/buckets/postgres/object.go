package postgres

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the size of the protocol's entity tags
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
)

// scanObject decodes objectColumns, a text array: functions return objects together with a result code.
func scanObject(columns []*string) (buckets.Object, error) {
	r := textRow{columns: columns}
	o := buckets.Object{
		Name: r.text(objectName), Created: buckets.Moment(r.number(objectCreated)), Modified: buckets.Moment(r.number(objectModified)),
		Creator: buckets.AccountID(r.text(objectCreator)), ContentType: r.text(objectType),
		Body:       buckets.Body{ID: buckets.ObjectID(r.text(objectID)), Length: r.number(objectLength), MD5: r.bytes(objectMD5)},
		Properties: r.properties(objectProperties),
	}
	r.json(objectHeaders, &o.Headers)
	r.json(objectRoles, &o.Roles)
	r.json(objectSharks, &o.Sharks)
	return o, r.err
}

const (
	conditionSet = 1 << iota
	matchAny
	noneMatchAny
)

// flags tells SQL functions which parts of a condition are set.
func flags(c *buckets.Condition) (f int32) {
	if c.IsSet() {
		f |= conditionSet
	}
	if c.Match.Any {
		f |= matchAny
	}
	if c.NoneMatch.Any {
		f |= noneMatchAny
	}
	return f
}

// put holds the parameters for bucket_put_v3.
type put struct {
	owner      buckets.AccountID
	bucket     buckets.BucketRef
	object     buckets.Object
	properties []byte
	bytes      int64
	condition  buckets.Condition
	now        buckets.Moment
	all        bool
}

// encode fills properties; call it before write.
func (p *put) encode() (err error) {
	p.properties, err = p.object.Properties.Encode()
	return err
}

// write encodes the parameters in binary, without reflection: this is the most frequent call.
func (p put) write(a *pgdb.Args) {
	o := &p.object
	names, values := pairs(o.Headers)
	a.UUID("p_owner", string(p.owner))
	a.Text("p_bucket", p.bucket.Name)
	a.UUIDOrNull("p_bucket_id", string(p.bucket.ID))
	a.Text("p_name", o.Name)
	a.Timestamptz("p_now", p.now.Time())
	a.UUID("p_id", string(o.ID))
	a.UUIDOrNull("p_creator", string(o.Creator))
	a.Bigint("p_length", o.Length)
	a.BytesOrNull("p_md5", o.MD5, o.MD5 != nil)
	a.Text("p_type", o.ContentType)
	a.TextsOrNull("p_header_names", names)
	a.TextsOrNull("p_header_values", values)
	a.UUIDsOrNull("p_roles", o.Roles)
	a.TextsOrNull("p_sharks", o.Sharks)
	a.JSONB("p_properties", p.properties)
	a.BytesOrNull("p_body", o.Inline, o.Inline != nil)
	a.BigintOrNull("p_crc64nvme", int64(o.Frames.Value.CRC64NVME), o.Frames.Set)
	a.BigintOrNull("p_frames", int64(o.Frames.Value.ID), o.Frames.Set)
	a.Bigint("p_bytes", p.bytes)
	a.Integer("p_flags", flags(&p.condition))
	a.TextsOrNull("p_match", p.condition.Match.Tags)
	a.TextsOrNull("p_none_match", p.condition.NoneMatch.Tags)
	a.TimestamptzOrNull("p_modified_since", p.condition.ModifiedSince.Time(), p.condition.ModifiedSince != 0)
	a.TimestamptzOrNull("p_unmodified_since", p.condition.UnmodifiedSince.Time(), p.condition.UnmodifiedSince != 0)
	a.Boolean("p_all", p.all)
}

// written reads the result of bucket_put_v3 into w: the code and, in a bucket with versions, its versioning and the
// version's time.
func written(w *buckets.Written, result []int64) error {
	if len(result) != 1 && len(result) != 3 {
		return errcode.Newf(errcode.Internal, "the buckets database returned %v for an object that was stored", result)
	}
	w.Replaced, w.Version, w.Object.Version = result[0] == 1, "", ""
	if len(result) == 3 {
		if buckets.Versioning(result[1]) == buckets.VersioningEnabled {
			w.Object.Version = buckets.VersionOf(result[2], w.Object.ID)
		}
		w.Version = w.Object.VersionID()
	}
	return failed(result[0])
}

// Put implements buckets.Store.
func (s *Store) Put(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, w buckets.Put) (done buckets.Written, err error) {
	if err := owner.Check(); err != nil {
		return buckets.Written{}, err
	}
	done.Object = w.Stored()
	w.Object.Version = ""
	p := put{owner: owner, bucket: b, object: w.Object, bytes: w.Object.Length, condition: w.Condition, now: w.Now}
	if err := p.encode(); err != nil {
		return buckets.Written{}, err
	}
	err = twice(func(all bool) error {
		p.all = all
		if w.Object.Imported != 0 || w.Notice != nil {
			return s.putInSteps(ctx, &p, w.Notice, &done)
		}
		result, err := s.db.Call(ctx, sqlPut.Statement, sqlPut.Args(p))
		if err != nil {
			return err
		}
		return written(&done, result)
	})
	return done, err
}

// putInSteps stores an object that has events or an imported time, which sqlPut alone does not support.
func (s *Store) putInSteps(ctx context.Context, p *put, n *buckets.Notice, done *buckets.Written) error {
	return s.notifying(ctx, "buckets.put_in_steps", objectKey{p.owner, p.bucket, p.object.Name}, func(tx *pgdb.Tx) ([]buckets.Event, error) {
		result, err := tx.Call(sqlPut.Statement, sqlPut.Args(*p))
		if err != nil {
			return nil, err
		}
		if err := written(done, result); err != nil {
			return nil, err
		}
		if p.object.Imported != 0 {
			err = setImported(tx, sqlSetModified, moved{p.owner, p.bucket.ID, p.object.Name, p.object.Imported, p.now})
		}
		return n.OfWritten(*done, p.now), err
	})
}

// moved is an object whose time is changed to that at an import's source.
type moved struct {
	owner    buckets.AccountID
	bucket   buckets.BucketID
	name     string
	imported buckets.Moment
	now      buckets.Moment
}

// setImported moves a new version to its time at the source, and the supersession of its predecessor with it.
func setImported(tx *pgdb.Tx, st pgdb.Statement, m moved) error {
	if _, err := tx.Exec(st, string(m.owner), string(m.bucket), m.name, at(m.imported)); err != nil {
		return err
	}
	_, err := tx.Exec(sqlSetSuperseded, string(m.owner), string(m.bucket), m.name, at(m.imported), at(m.now))
	return err
}

// Get implements buckets.Store.
func (s *Store) Get(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, name string) (o buckets.Object, err error) {
	if err := owner.Check(); err != nil {
		return o, err
	}
	var columns []*string
	var body []byte
	var sums sums
	found, err := s.db.QueryRow(ctx, sqlGet, []any{string(owner), string(b), name}, sums.dest(&columns, &body)...)
	if err != nil {
		return o, err
	}
	if !found {
		return o, buckets.ErrNoObject
	}
	o, err = scanObject(columns)
	o.Inline = body
	sums.set(&o.Body)
	return o, err
}

// Find implements buckets.Store.
func (s *Store) Find(ctx context.Context, owner buckets.AccountID, bucket, name string) (b buckets.Bucket, o buckets.Object, err error) {
	if err := owner.Check(); err != nil {
		return b, o, err
	}
	var row bucketRow
	var columns []*string
	var body []byte
	var sums sums
	found, err := s.db.QueryRow(ctx, sqlFind, []any{string(owner), bucket, name}, sums.dest(append(row.dest(), &columns, &body)...)...)
	switch {
	case err != nil:
		return b, o, err
	case !found:
		return b, o, buckets.ErrNoBucket
	}
	if b, err = row.bucket(); err != nil {
		return b, o, err
	}
	if columns[0] == nil {
		return b, o, buckets.ErrNoObject
	}
	o, err = scanObject(columns)
	o.Inline = body
	sums.set(&o.Body)
	return b, o, err
}

// lock locks the object's name until the commit, and the bucket against deletion. It returns ErrNoBucket if the bucket
// is missing or has another ID. Object names need no row to be locked: these are advisory locks.
func lock(tx *pgdb.Tx, owner buckets.AccountID, b buckets.BucketRef, name string) error {
	var locked bool
	if _, err := tx.QueryRow(sqlLock, []any{string(owner), b.Name, string(b.ID), name}, &locked); err != nil {
		return err
	}
	if !locked {
		return buckets.ErrNoBucket
	}
	return nil
}

// head reads and locks an object. It returns nil if the object does not exist.
func head(tx *pgdb.Tx, owner buckets.AccountID, b buckets.BucketID, name string) (*buckets.Object, error) {
	var columns []*string
	found, err := tx.QueryRow(sqlHead, []any{string(owner), string(b), name}, &columns)
	if err != nil || !found {
		return nil, err
	}
	o, err := scanObject(columns)
	return &o, err
}

// Update implements buckets.Store.
func (s *Store) Update(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, u buckets.Update) (o buckets.Object, err error) {
	if err := owner.Check(); err != nil {
		return o, err
	}
	err = s.db.Tx(ctx, "buckets.update_object", func(tx *pgdb.Tx) error {
		if err := lock(tx, owner, b, u.Name); err != nil {
			return err
		}
		old, err := head(tx, owner, b.ID, u.Name)
		if err != nil {
			return err
		}
		if u.Version != "" && (old == nil || old.VersionID() != u.Version) {
			o, err = updateVersion(tx, owner, b, u)
			return err
		}
		if err := u.Condition.CheckWrite(old); err != nil {
			return err
		}
		if old == nil {
			return buckets.ErrNoObject
		}
		if err := applyLock(tx, owner, b, &u, old); err != nil {
			return err
		}
		o = u.Apply(*old)
		properties, err := o.Properties.Encode()
		if err != nil {
			return err
		}
		_, err = tx.Exec(sqlUpdate.Statement, sqlUpdate.Args(updated{owner, b.ID, o, properties})...)
		return err
	})
	return o, err
}

// updated holds the parameters for an update of the metadata.
type updated struct {
	owner  buckets.AccountID
	bucket buckets.BucketID
	buckets.Object
	properties []byte
}

// args names and orders the parameters for pgdb.
func (u updated) args() []pgdb.Arg {
	names, values := pairs(u.Headers)
	return []pgdb.Arg{
		{Param: "owner uuid", Value: string(u.owner)},
		{Param: "bucket_id uuid", Value: string(u.bucket)},
		{Param: "name text", Value: u.Name},
		{Param: "modified timestamptz", Value: at(u.Modified)},
		{Param: "type text", Value: u.ContentType},
		{Param: "header_names text[]", Value: names},
		{Param: "header_values text[]", Value: values},
		{Param: "roles text[]::uuid[]", Value: listOrNil(u.Roles)},
		{Param: "properties jsonb", Value: textOrNull(u.properties)},
	}
}

// List implements buckets.Store.
func (s *Store) List(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, q buckets.Query) (buckets.Page, error) {
	if err := owner.Check(); err != nil {
		return buckets.Page{}, err
	}
	for {
		page, err := s.list(ctx, owner, b, q)
		if err != nil || !q.Metadata {
			return page, err
		}
		if page.Entries, err = s.withMetadata(ctx, owner, b, page.Entries); err != nil || len(page.Entries) > 0 || !page.More {
			return page, err
		}
		q.Start = page.Next // all objects on the page were deleted concurrently
	}
}

// withMetadata reads the objects of a page again with all metadata, which bucket_list_v2 omits because most pages do
// not need it. It drops objects that were deleted since.
func (s *Store) withMetadata(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, entries []buckets.Entry) (kept []buckets.Entry, err error) {
	var names []string
	for i := range entries {
		if entries[i].Object != nil {
			names = append(names, entries[i].Object.Name)
		}
	}
	objects := map[string]*buckets.Object{}
	var columns []*string
	err = s.db.ForEach(ctx, sqlListed, []any{string(owner), string(b), names}, func() { clear(objects) }, func() error {
		o, err := scanObject(columns)
		objects[o.Name] = &o
		columns = nil
		return err
	}, &columns)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Object != nil {
			if e.Object = objects[e.Object.Name]; e.Object == nil {
				continue
			}
		}
		kept = append(kept, e)
	}
	return kept, nil
}

// list reads a page without metadata. The database skips groups by itself, so that a list of folders does not read
// their contents.
func (s *Store) list(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, q buckets.Query) (buckets.Page, error) {
	l := buckets.NewLister(q)
	var e entries
	err := s.db.CallEach(ctx, sqlList.Statement, sqlList.Args(listing{owner, b, q, l.From()}), func() { l = buckets.NewLister(q) }, func(r *pgdb.Row) error {
		if l.IsComplete() {
			return nil // more rows than fit into Query.Bytes
		}
		// The function bucket_list_v2 skipped the rest of a group.
		if r.IsNull(entryID) {
			l.AddGroup(string(r.Raw(entryName)))
			return nil
		}
		o, err := e.object(r)
		if err == nil {
			l.Add(o)
		}
		return err
	})
	if err != nil {
		return buckets.Page{}, err
	}
	return l.Page(), nil
}

// listing holds the parameters for bucket_list_v2.
type listing struct {
	owner  buckets.AccountID
	bucket buckets.BucketID
	buckets.Query
	from buckets.Position
}

// write encodes the parameters in binary.
func (l listing) write(a *pgdb.Args) {
	a.UUID("p_owner", string(l.owner))
	a.UUID("p_bucket_id", string(l.bucket))
	a.Text("p_prefix", l.Prefix)
	a.Text("p_delimiter", l.Delimiter)
	a.Text("p_from", l.from.Name)
	a.Boolean("p_inclusive", l.from.Inclusive)
	a.Integer("p_limit", int32(l.Limit+1))
}

// Positions in entryColumns.
const (
	entryName = iota
	entryModified
	entryLength
	entryMD5
	entryProperties
	entryID
	entryCreated
	entryCreator
	entryType
)

var entryColumns = strings.Join([]string{
	entryName: "name", entryModified: "modified", entryLength: "content_length", entryMD5: "content_md5", entryProperties: "properties",
	entryID: "id", entryCreated: "created", entryCreator: "creator", entryType: "content_type",
}, ", ")

// entries decodes rows of bucket_list_v2. It reuses strings, because most objects have the same creator and type as
// the previous object.
type entries struct {
	creator     buckets.AccountID
	creatorID   []byte
	contentType string
	sums        []byte
}

// object decodes the current row.
func (e *entries) object(r *pgdb.Row) (o buckets.Object, err error) {
	if id := r.Raw(entryCreator); !bytes.Equal(id, e.creatorID) {
		e.creatorID, e.creator = bytes.Clone(id), buckets.AccountID(r.UUID(entryCreator))
	}
	if kind := r.Raw(entryType); string(kind) != e.contentType {
		e.contentType = string(kind)
	}
	o = buckets.Object{
		Name: string(r.Raw(entryName)), Modified: buckets.Moment(r.Micros(entryModified)), Created: buckets.Moment(r.Micros(entryCreated)),
		Creator: e.creator, ContentType: e.contentType,
		Body: buckets.Body{ID: buckets.ObjectID(r.UUID(entryID)), Length: r.Bigint(entryLength)},
	}
	if !r.IsNull(entryMD5) {
		o.MD5 = e.keep(r.Raw(entryMD5))
	}
	o.Properties, err = buckets.DecodeProperties(r.Raw(entryProperties))
	return o, err
}

// keep copies a sum into memory shared by many rows, to save allocations.
func (e *entries) keep(sum []byte) []byte {
	if len(sum) > cap(e.sums)-len(e.sums) {
		e.sums = make([]byte, 0, max(64*md5.Size, len(sum)))
	}
	n := len(e.sums)
	e.sums = append(e.sums, sum...)
	return e.sums[n:len(e.sums):len(e.sums)]
}
