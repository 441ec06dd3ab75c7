package postgres

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the size of the protocol's entity tags
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
)

// scanObject decodes a row of objectColumns.
func scanObject(columns []*string) (buckets.Object, error) {
	r := row{columns: columns}
	o := buckets.Object{
		Name: r.text(1), Created: buckets.Moment(r.number(2)), Modified: buckets.Moment(r.number(3)),
		Creator: buckets.AccountID(r.text(4)), ContentType: r.text(7),
		Body:       buckets.Body{ID: buckets.ObjectID(r.text(0)), Length: r.number(5), MD5: r.bytes(6)},
		Properties: r.properties(11),
	}
	r.json(8, &o.Headers)
	r.json(9, &o.Roles)
	r.json(10, &o.Sharks)
	return o, r.err
}

// Bits of the flags that the functions get with a condition.
const (
	conditionSet = 1 << iota
	matchAny
	noneMatchAny
)

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

// put is a call of bucket_put_v2.
type put struct {
	owner     buckets.AccountID
	bucket    buckets.BucketRef
	object    *buckets.Object
	bytes     int64 // that the body adds to the usage
	condition *buckets.Condition
	now       buckets.Moment
	all       bool
}

// arguments returns the arguments of bucket_put_v2.
func (p *put) arguments() (*pgdb.Args, error) {
	o := p.object
	properties, err := o.Properties.Encode()
	if err != nil {
		return nil, err
	}
	a := pgdb.NewArgs(25)
	uuid := func(id string) {
		if id == "" {
			a.Null()
		} else {
			a.Bytea(uuidBytes(id))
		}
	}
	bytea := func(b []byte) {
		if b == nil {
			a.Null()
		} else {
			a.Bytea(b)
		}
	}
	texts := func(list []string) {
		if len(list) == 0 {
			a.Null()
		} else {
			a.Texts(len(list), func(i int) string { return list[i] })
		}
	}
	moment := func(m buckets.Moment) {
		if m == 0 {
			a.Null()
		} else {
			a.Timestamp(m.Time())
		}
	}
	names, values := pairs(o.Headers)
	uuid(string(p.owner))
	a.Text(p.bucket.Name)
	uuid(string(p.bucket.ID))
	a.Text(o.Name)
	a.Timestamp(p.now.Time())
	uuid(string(o.ID))
	uuid(string(o.Creator))
	a.Bigint(o.Length)
	bytea(o.MD5)
	a.Text(o.ContentType)
	texts(names)
	texts(values)
	texts(o.Roles)
	texts(o.Sharks)
	if properties == nil {
		a.Null()
	} else {
		a.Text(string(properties))
	}
	bytea(o.Inline)
	crc64, id := orNulls(o.Frames)
	for _, v := range []pgtype.Int8{crc64, id} {
		if v.Valid {
			a.Bigint(v.Int64)
		} else {
			a.Null()
		}
	}
	a.Bigint(p.bytes)
	a.Integer(flags(p.condition))
	texts(p.condition.Match.Tags)
	texts(p.condition.NoneMatch.Tags)
	moment(p.condition.ModifiedSince)
	moment(p.condition.UnmodifiedSince)
	a.Boolean(p.all)
	return a, nil
}

// replaced returns whether there was an object, or the error of the call.
func replaced(result []int64) (bool, error) {
	if len(result) != 1 {
		return false, errcode.Newf(errcode.Internal, "the database of buckets returned %v for an object that was stored", result)
	}
	return result[0] == 1, failed(result[0])
}

// Put implements buckets.Store.
func (s *Store) Put(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, w buckets.Put) (written buckets.Written, err error) {
	if err := owner.Check(); err != nil {
		return buckets.Written{}, err
	}
	written.Object = w.Object
	written.Object.Created, written.Object.Modified = w.Now, w.Now
	err = twice(func(all bool) error {
		p := put{owner: owner, bucket: b, object: &w.Object, bytes: w.Object.Length, condition: &w.Condition, now: w.Now, all: all}
		a, err := p.arguments()
		if err != nil {
			return err
		}
		result, err := s.db.Call(ctx, sqlPut, a)
		if err != nil {
			return err
		}
		written.Replaced, err = replaced(result)
		return err
	})
	return written, err
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

// lock locks a bucket and a name in it, or returns ErrNoBucket.
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

// head reads an object without its body and locks it; nil if there is none.
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
		if err := u.Condition.CheckWrite(old); err != nil {
			return err
		}
		if old == nil {
			return buckets.ErrNoObject
		}
		o = u.Apply(*old)
		properties, err := o.Properties.Encode()
		if err != nil {
			return err
		}
		names, values := pairs(o.Headers)
		_, err = tx.Exec(sqlUpdate, string(owner), string(b.ID), u.Name, at(o.Modified), o.ContentType, names, values, listOrNil(o.Roles), textOrNull(properties))
		return err
	})
	return o, err
}

// Delete implements buckets.Store.
func (s *Store) Delete(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, d buckets.Delete) (buckets.Object, error) {
	if err := owner.Check(); err != nil {
		return buckets.Object{}, err
	}
	c := &d.Condition
	var columns []*string
	_, err := s.db.QueryRow(ctx, sqlDelete, []any{
		string(owner), b.Name, orNull(b.ID), d.Name, at(d.Now),
		flags(c), c.Match.Tags, c.NoneMatch.Tags, atOrNull(c.ModifiedSince), atOrNull(c.UnmodifiedSince),
	}, &columns)
	if err != nil {
		return buckets.Object{}, err
	}
	if len(columns) == 1 && columns[0] != nil {
		result, err := strconv.ParseInt(*columns[0], 10, 64)
		return buckets.Object{}, errors.Join(err, failed(result))
	}
	return scanObject(columns)
}

// DeleteAll implements buckets.Store.
func (s *Store) DeleteAll(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, all []buckets.Deletion, now buckets.Moment) ([]error, error) {
	if err := owner.Check(); err != nil {
		return nil, err
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(all[i].Name, all[j].Name) })
	names, tags := make([]string, len(all)), make([]*string, len(all))
	for n, i := range order {
		names[n], tags[n] = all[i].Name, orNull(all[i].ETag)
	}
	var results []int64
	if _, err := s.db.QueryRow(ctx, sqlDeleteObjects, []any{string(owner), b.Name, string(b.ID), names, at(now), tags}, &results); err != nil {
		return nil, err
	}
	errs := make([]error, len(all))
	switch {
	case len(results) == 1 && results[0] == noBucket:
		for i := range errs {
			errs[i] = buckets.ErrNoBucket
		}
	case len(results) != len(all):
		return nil, errcode.Newf(errcode.Internal, "the database of buckets returned %d results for %d deletions", len(results), len(all))
	default:
		for n, i := range order {
			errs[i] = failed(results[n])
		}
	}
	return errs, nil
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
		q.Start = page.Next // all objects of the page were deleted meanwhile
	}
}

// withMetadata reads the objects of a page again, with all metadata. The function that lists
// does not return the metadata, because most pages do not need it. Objects that were deleted
// meanwhile are removed from the page.
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

func (s *Store) list(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, q buckets.Query) (buckets.Page, error) {
	l := buckets.NewLister(q)
	from := l.From()
	a := pgdb.NewArgs(7)
	a.Bytea(uuidBytes(owner))
	a.Bytea(uuidBytes(b))
	a.Text(q.Prefix)
	a.Text(q.Delimiter)
	a.Text(from.Name)
	a.Boolean(from.Inclusive)
	a.Integer(int32(q.Limit + 1))
	var e entries
	err := s.db.CallEach(ctx, sqlList, a, func() { l = buckets.NewLister(q) }, func(r *pgdb.Row) error {
		if l.IsComplete() {
			return nil // the query may return more rows than fit into Query.Bytes
		}
		// The function has skipped the rest of a group.
		if r.IsNull(5) {
			l.AddGroup(string(r.Raw(0)))
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

// entries decodes the rows of bucket_list_v2. Most objects of a page have the same creator and
// type as the one before, and share its texts.
type entries struct {
	creator     buckets.AccountID
	creatorID   []byte
	contentType string
	sums        []byte // space for MD5s
}

func (e *entries) object(r *pgdb.Row) (o buckets.Object, err error) {
	if id := r.Raw(7); !bytes.Equal(id, e.creatorID) {
		e.creatorID, e.creator = bytes.Clone(id), buckets.AccountID(r.UUID(7))
	}
	if kind := r.Raw(8); string(kind) != e.contentType {
		e.contentType = string(kind)
	}
	o = buckets.Object{
		Name: string(r.Raw(0)), Modified: buckets.Moment(r.Micros(1)), Created: buckets.Moment(r.Micros(6)), Creator: e.creator, ContentType: e.contentType,
		Body: buckets.Body{ID: buckets.ObjectID(r.UUID(5)), Length: r.Bigint(2)},
	}
	if !r.IsNull(3) {
		o.MD5 = e.keep(r.Raw(3))
	}
	o.Properties, err = buckets.DecodeProperties(r.Raw(4))
	return o, err
}

// keep returns a copy of a sum, of which many share an allocation.
func (e *entries) keep(sum []byte) []byte {
	if len(sum) > cap(e.sums)-len(e.sums) {
		e.sums = make([]byte, 0, max(64*md5.Size, len(sum)))
	}
	n := len(e.sums)
	e.sums = append(e.sums, sum...)
	return e.sums[n:len(e.sums):len(e.sums)]
}
