package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
)

// scanUpload decodes uploadColumns.
func scanUpload(columns []*string) (buckets.Upload, error) {
	r := textRow{columns: columns}
	u := buckets.Upload{
		ID: buckets.UploadID(r.text(uploadID)), Name: r.text(uploadName), Created: buckets.Moment(r.number(uploadCreated)),
		Creator: buckets.AccountID(r.text(uploadCreator)), ContentType: r.text(uploadType), Properties: r.properties(uploadProperties),
	}
	r.json(uploadHeaders, &u.Headers)
	r.json(uploadRoles, &u.Roles)
	return u, r.err
}

// scanPart decodes partColumns. start is the part's offset in a completed object.
func scanPart(columns []*string) (p buckets.Part, start int64, err error) {
	r := textRow{columns: columns}
	p = buckets.Part{
		Number: int(r.number(partNumber)), Created: buckets.Moment(r.number(partCreated)),
		Body: buckets.Body{ID: buckets.ObjectID(r.text(partID)), Length: r.number(partLength), MD5: r.bytes(partMD5)},
	}
	r.json(partChecksum, &p.Checksum)
	r.json(partSharks, &p.Sharks)
	return p, r.number(partStart), r.err
}

// CreateUpload implements buckets.Uploads.
func (s *Store) CreateUpload(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, u buckets.Upload) error {
	if err := owner.Check(); err != nil {
		return err
	}
	properties, err := u.Properties.Encode()
	if err != nil {
		return err
	}
	_, err = s.run(ctx, sqlCreateUpload.Statement, sqlCreateUpload.Args(newUpload{owner, b, u, properties})...)
	return err
}

// newUpload holds the parameters for a new upload.
type newUpload struct {
	owner  buckets.AccountID
	bucket buckets.BucketRef
	buckets.Upload
	properties []byte
}

// args names and orders the parameters for pgdb.
func (u newUpload) args() []pgdb.Arg {
	names, values := pairs(u.Headers)
	return []pgdb.Arg{
		{Param: "p_owner uuid", Value: string(u.owner)},
		{Param: "p_bucket text", Value: u.bucket.Name},
		{Param: "p_bucket_id uuid", Value: string(u.bucket.ID)},
		{Param: "p_name text", Value: u.Name},
		{Param: "p_id uuid", Value: string(u.ID)},
		{Param: "p_created timestamptz", Value: at(u.Created)},
		{Param: "p_creator uuid", Value: orNull(u.Creator)},
		{Param: "p_type text", Value: u.ContentType},
		{Param: "p_header_names text[]", Value: names},
		{Param: "p_header_values text[]", Value: values},
		{Param: "p_roles text[]::uuid[]", Value: listOrNil(u.Roles)},
		{Param: "p_properties jsonb", Value: textOrNull(u.properties)},
	}
}

// readUpload returns ErrNoUpload if the upload ended or belongs to another bucket.
func readUpload(query query, st pgdb.Statement, k buckets.UploadKey) (buckets.Upload, error) {
	var columns []*string
	found, err := query(st, []any{string(k.Owner), string(k.Bucket.ID), k.Name, string(k.ID)}, &columns)
	if err != nil {
		return buckets.Upload{}, err
	}
	if !found {
		return buckets.Upload{}, buckets.ErrNoUpload
	}
	return scanUpload(columns)
}

// query reads a row, within a transaction or outside.
type query func(st pgdb.Statement, args []any, dest ...any) (bool, error)

// Upload implements buckets.Uploads.
func (s *Store) Upload(ctx context.Context, k buckets.UploadKey) (buckets.Upload, error) {
	if err := k.Owner.Check(); err != nil {
		return buckets.Upload{}, err
	}
	return readUpload(func(st pgdb.Statement, args []any, dest ...any) (bool, error) {
		return s.db.QueryRow(ctx, st, args, dest...)
	}, sqlUpload, k)
}

// PutPart implements buckets.Uploads.
func (s *Store) PutPart(ctx context.Context, k buckets.UploadKey, p buckets.Part) error {
	if err := k.Owner.Check(); err != nil {
		return err
	}
	var sum *string
	if p.Checksum.Algorithm != "" {
		text, err := json.Marshal(p.Checksum)
		if err != nil {
			return errcode.Wrap(errcode.Internal, "encode a checksum", err)
		}
		sum = textOrNull(text)
	}
	return twice(func(all bool) error {
		_, err := s.run(ctx, sqlPutPart.Statement, sqlPutPart.Args(newPart{k, p, sum, all})...)
		return err
	})
}

// newPart holds the parameters for bucket_put_part_v2.
type newPart struct {
	upload buckets.UploadKey
	buckets.Part
	sum *string
	all bool
}

// args names and orders the parameters for pgdb.
func (p newPart) args() []pgdb.Arg {
	crc64, frames := orNulls(p.Frames)
	return []pgdb.Arg{
		{Param: "p_owner uuid", Value: string(p.upload.Owner)},
		{Param: "p_bucket text", Value: p.upload.Bucket.Name},
		{Param: "p_bucket_id uuid", Value: string(p.upload.Bucket.ID)},
		{Param: "p_name text", Value: p.upload.Name},
		{Param: "p_upload uuid", Value: string(p.upload.ID)},
		{Param: "p_number integer", Value: p.Number},
		{Param: "p_created timestamptz", Value: at(p.Created)},
		{Param: "p_id uuid", Value: string(p.ID)},
		{Param: "p_length bigint", Value: p.Length},
		{Param: "p_md5 bytea", Value: p.MD5},
		{Param: "p_checksum jsonb", Value: p.sum},
		{Param: "p_sharks text[]", Value: listOrNil(p.Sharks)},
		{Param: "p_body bytea", Value: p.Inline},
		{Param: "p_crc64nvme bigint", Value: crc64},
		{Param: "p_frames bigint", Value: frames},
		{Param: "p_all boolean", Value: p.all},
	}
}

// Parts reads the parts before the upload, so that it returns no parts if the upload ends in between.
func (s *Store) Parts(ctx context.Context, k buckets.UploadKey, after, limit int) (page []buckets.Part, more bool, err error) {
	if err := k.Owner.Check(); err != nil {
		return nil, false, err
	}
	var columns []*string
	err = s.db.ForEach(ctx, sqlParts, []any{string(k.Owner), string(k.ID), after, limit + 1}, func() { page = nil }, func() error {
		p, _, err := scanPart(columns)
		page = append(page, p)
		return err
	}, &columns)
	if err != nil {
		return nil, false, err
	}
	if _, err := s.Upload(ctx, k); err != nil {
		return nil, false, err
	}
	if len(page) > limit {
		return page[:limit], true, nil
	}
	return page, false, nil
}

const (
	nilUUID = "00000000-0000-0000-0000-000000000000"
	maxUUID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

// ListUploads implements lifecycle.Store.
func (s *Store) ListUploads(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, q buckets.UploadQuery) (buckets.UploadPage, error) {
	if err := owner.Check(); err != nil {
		return buckets.UploadPage{}, err
	}
	l := buckets.NewUploadLister(q)
	name, id := l.From()
	for limit := q.Limit + 1; ; limit = groupBatch {
		all, cut, err := s.uploads(ctx, buckets.UploadKey{Owner: owner, Bucket: buckets.BucketRef{ID: b}, Name: name, ID: id}, limit, q.Bytes)
		if err != nil {
			return buckets.UploadPage{}, err
		}
		skip, done := false, false
		for i := range all {
			if name, id, skip, done = l.Add(all[i]); skip || done {
				break
			}
			name, id = all[i].Name, all[i].ID
		}
		if done || !skip && !cut && len(all) < limit {
			return l.Page(), nil
		}
	}
}

const groupBatch = 50

// uploads reads a bucket's uploads after a name and ID, which need not exist. It returns cut if the remaining uploads
// exceed maxBytes.
func (s *Store) uploads(ctx context.Context, k buckets.UploadKey, limit, maxBytes int) (all []buckets.Upload, cut bool, err error) {
	after := string(k.ID)
	switch {
	case after == "":
		after = nilUUID
	case after > maxUUID:
		after = maxUUID
	}
	var columns []*string
	size := 0
	err = s.db.ForEach(ctx, sqlListUploads, []any{string(k.Owner), string(k.Bucket.ID), k.Name, after, limit}, func() { all, size, cut = nil, 0, false }, func() error {
		if cut = maxBytes > 0 && size > maxBytes; cut {
			return nil
		}
		u, err := scanUpload(columns)
		all = append(all, u)
		size += u.Memory()
		return err
	}, &columns)
	return all, cut, err
}

// Complete computes the object from data that was read without a lock, and bucket_complete_v2 writes it if the parts
// are unchanged. Otherwise a single transaction locks first and then does everything. On Citus, each statement of this
// transaction costs a message.
func (s *Store) Complete(ctx context.Context, k buckets.UploadKey, c buckets.Completion) (w buckets.Written, err error) {
	if err := k.Owner.Check(); err != nil {
		return buckets.Written{}, err
	}
	if c.Notice == nil {
		done := false
		if err := twice(func(all bool) (err error) {
			w, done, err = s.completeRead(ctx, k, c, all)
			return err
		}); done || err != nil {
			return w, err
		}
	}
	err = twice(func(all bool) error {
		return s.notifying(ctx, "buckets.complete_upload", objectKey{k.Owner, k.Bucket, k.Name}, func(tx *pgdb.Tx) (events []buckets.Event, err error) {
			var repeated bool
			if w, repeated, err = completeLocked(tx, k, c, all); !repeated {
				events = c.Notice.OfWritten(w, c.Now)
			}
			return events, err
		})
	})
	return w, err
}

// completeRead returns done = false if the upload is missing or changed since it was read.
func (s *Store) completeRead(ctx context.Context, k buckets.UploadKey, c buckets.Completion, all bool) (w buckets.Written, done bool, err error) {
	u, stored, err := s.uploadWithParts(ctx, k)
	if err != nil || u == nil {
		return w, false, err
	}
	m, err := assemble(*u, stored, c)
	if err != nil {
		return w, false, err
	}
	p, err := m.put(k.Owner, k.Bucket, &c, all)
	if err != nil {
		return w, false, err
	}
	result, err := s.db.Call(ctx, sqlComplete.Statement, sqlComplete.Args(completion{put: p, upload: k.ID, stored: hashOf(stored), used: m.Used}))
	if err != nil {
		return w, false, err
	}
	if len(result) == 1 && (result[0] == noUpload || result[0] == partsChanged) {
		return w, false, nil
	}
	w.Object = m.object
	err = written(&w, result)
	return w, err == nil, err
}

// completion holds the parameters for bucket_complete_v2.
type completion struct {
	put
	upload buckets.UploadID
	stored []byte
	used   []buckets.Segment
}

// write encodes the parameters in binary.
func (c completion) write(a *pgdb.Args) {
	c.put.write(a)
	a.UUID("p_upload", string(c.upload))
	a.Bytea("p_stored", c.stored)
	a.Integers("p_numbers", len(c.used), func(i int) int32 { return int32(c.used[i].Number) })
	a.Bigints("p_starts", len(c.used), func(i int) (int64, bool) { return c.used[i].Start, true })
}

// uploadWithParts reads both in a snapshot. u is nil without the upload.
func (s *Store) uploadWithParts(ctx context.Context, k buckets.UploadKey) (u *buckets.Upload, all []buckets.Part, err error) {
	var (
		kind    string
		columns []*string
		exists  bool
	)
	err = s.db.ForEach(ctx, sqlUploadWithParts, []any{string(k.Owner), string(k.Bucket.ID), k.Name, string(k.ID), k.Bucket.Name}, func() { u, all, exists = nil, nil, false }, func() error {
		switch kind {
		case "bucket":
			exists = true
		case "upload":
			upload, err := scanUpload(columns)
			u = &upload
			return err
		default:
			p, _, err := scanPart(columns)
			all = append(all, p)
			return err
		}
		return nil
	}, &kind, &columns)
	if err == nil && !exists {
		err = buckets.ErrNoBucket
	}
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(all, func(a, b buckets.Part) int { return a.Number - b.Number })
	return u, all, nil
}

// hashOf returns the hash by which bucket_complete_v2 recognizes the parts. Body IDs identify parts uniquely.
func hashOf(parts []buckets.Part) []byte {
	h := sha256.New()
	for i := range parts {
		if i > 0 {
			_, _ = io.WriteString(h, ",")
		}
		_, _ = fmt.Fprintf(h, "%d %s", parts[i].Number, parts[i].ID)
	}
	return h.Sum(nil)
}

// made is an assembled object.
type made struct {
	buckets.Assembly
	object buckets.Object
}

// assemble checks the client's list against the stored parts and builds the object.
func assemble(u buckets.Upload, stored []buckets.Part, c buckets.Completion) (m made, err error) {
	if m.Assembly, err = buckets.Assemble(stored, c.Parts, c.MinPart); err == nil {
		m.object, err = m.Object(u, c)
	}
	return m, err
}

// put returns the call that writes the object. The usage counters already include its parts.
func (m *made) put(owner buckets.AccountID, b buckets.BucketRef, c *buckets.Completion, all bool) (put, error) {
	p := put{owner: owner, bucket: b, object: m.object, bytes: -m.UnusedBytes(), condition: c.Condition, now: c.Now, all: all}
	return p, p.encode()
}

// completeLocked requires a lock on the name. It returns repeated if the upload was already completed.
func completeLocked(tx *pgdb.Tx, k buckets.UploadKey, c buckets.Completion, all bool) (w buckets.Written, repeated bool, err error) {
	u, err := readUpload(tx.QueryRow, sqlLockUpload, k)
	if err == buckets.ErrNoUpload { //nolint:errorlint // never wrapped
		o, err := head(tx, k.Owner, k.Bucket.ID, k.Name)
		if err != nil {
			return w, false, err
		}
		if o == nil || o.Upload != k.ID {
			return w, false, buckets.ErrNoUpload
		}
		w = buckets.Written{Object: *o}
		var r bucketRow
		if _, err := tx.QueryRow(sqlBucket, []any{string(k.Owner), k.Bucket.Name}, r.dest()...); err != nil {
			return w, false, err
		}
		if r.versioning > 0 {
			w.Version = o.VersionID()
		}
		return w, true, nil
	}
	if err != nil {
		return w, false, err
	}
	stored, err := parts(tx, k.Owner, k.ID)
	if err != nil {
		return w, false, err
	}
	m, err := assemble(u, stored, c)
	if err != nil {
		return w, false, err
	}
	w.Object = m.object
	p, err := m.put(k.Owner, k.Bucket, &c, all)
	if err != nil {
		return w, false, err
	}
	result, err := tx.Call(sqlPut.Statement, sqlPut.Args(p))
	if err != nil {
		return w, false, err
	}
	if err := written(&w, result); err != nil {
		return w, false, err
	}
	_, err = tx.QueryRow(sqlAssemble.Statement, sqlAssemble.Args(assembling{k, m.Assembly, c.Now}), new(int64))
	return w, false, err
}

// assembling holds the parameters that finish an upload within a transaction.
type assembling struct {
	upload buckets.UploadKey
	buckets.Assembly
	now buckets.Moment
}

// args names and orders the parameters for pgdb.
func (u assembling) args() []pgdb.Arg {
	numbers, starts := offsets(&u.Assembly)
	return []pgdb.Arg{
		{Param: "p_owner uuid", Value: string(u.upload.Owner)},
		{Param: "p_bucket_id uuid", Value: string(u.upload.Bucket.ID)},
		{Param: "p_name text", Value: u.upload.Name},
		{Param: "p_upload uuid", Value: string(u.upload.ID)},
		{Param: "p_numbers integer[]", Value: numbers},
		{Param: "p_starts bigint[]", Value: starts},
		{Param: "p_now timestamptz", Value: at(u.now)},
	}
}

// parts reads all parts.
func parts(tx *pgdb.Tx, owner buckets.AccountID, id buckets.UploadID) (all []buckets.Part, err error) {
	var columns []*string
	err = tx.ForEach(sqlParts, []any{string(owner), string(id), 0, buckets.MaxParts}, func() error {
		p, _, err := scanPart(columns)
		all = append(all, p)
		return err
	}, &columns)
	return all, err
}

// offsets returns parallel arrays.
func offsets(a *buckets.Assembly) (numbers []int32, starts []int64) {
	for i := range a.Used {
		numbers, starts = append(numbers, int32(a.Used[i].Number)), append(starts, a.Used[i].Start)
	}
	return numbers, starts
}

// Segments implements buckets.Store.
func (s *Store) Segments(ctx context.Context, owner buckets.AccountID, u buckets.UploadID, from int64, limit int) (all []buckets.Segment, err error) {
	return s.segments(ctx, sqlSegments, owner, u, []any{from, limit})
}

// segments reads a page, whose begin and limit are the last parameters of the statement.
func (s *Store) segments(ctx context.Context, sql pgdb.Statement, owner buckets.AccountID, u buckets.UploadID, page []any) (all []buckets.Segment, err error) {
	if err := owner.Check(); err != nil {
		return nil, err
	}
	var columns []*string
	var body []byte
	var sums sums
	err = s.db.ForEach(ctx, sql, append([]any{string(owner), string(u)}, page...), func() { all = nil }, func() error {
		p, start, err := scanPart(columns)
		p.Inline, body = body, nil
		sums.set(&p.Body)
		all = append(all, buckets.Segment{Body: p.Body, Number: p.Number, Start: start, Checksum: p.Checksum})
		return err
	}, sums.dest(&columns, &body)...)
	return all, err
}

// UploadBodies implements buckets.Collector.
func (s *Store) UploadBodies(ctx context.Context, owner buckets.AccountID, u buckets.UploadID, after, limit int) (all []buckets.Segment, err error) {
	return s.segments(ctx, sqlBodies, owner, u, []any{after, limit})
}

// MarkRestored implements buckets.Uploads.
func (s *Store) MarkRestored(ctx context.Context) error {
	_, err := s.db.Exec(ctx, sqlMarkRestored)
	return err
}

// Abort implements lifecycle.Store.
func (s *Store) Abort(ctx context.Context, k buckets.UploadKey, now buckets.Moment) error {
	if err := k.Owner.Check(); err != nil {
		return err
	}
	_, err := s.run(ctx, sqlAbort, string(k.Owner), string(k.Bucket.ID), k.Name, string(k.ID), at(now))
	return err
}

// AbortOld aborts each upload separately, because locking several accounts would violate the lock order.
func (s *Store) AbortOld(ctx context.Context, before, now buckets.Moment, limit int) (n int, err error) {
	type key struct{ owner, bucket, name, id string }
	var k key
	var all []key
	err = s.db.ForEach(ctx, sqlOldUploads, []any{at(before), limit}, func() { all = nil }, func() error {
		all = append(all, k)
		return nil
	}, &k.owner, &k.bucket, &k.name, &k.id)
	if err != nil {
		return 0, err
	}
	for _, k := range all {
		err := s.Abort(ctx, buckets.UploadKey{Owner: buckets.AccountID(k.owner), Bucket: buckets.BucketRef{ID: buckets.BucketID(k.bucket)}, Name: k.name, ID: buckets.UploadID(k.id)}, now)
		if err == buckets.ErrNoUpload { //nolint:errorlint // never wrapped
			continue
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
