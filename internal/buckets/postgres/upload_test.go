package postgres_test

import (
	"bytes"
	"strings"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestCompleteAgainstOthers changes an upload between the read and the write of Complete. Complete must use the new parts,
// or return the object if another request completed the upload.
func TestCompleteAgainstOthers(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, postgres.Migrations)
	other := postgres.New(opened.Postgres(t, pgdb.Options{URL: url}, nil))
	var between func() error
	s := postgres.New(opened.Postgres(t, pgdb.Options{URL: url, Fault: func(point string) error {
		if point != "buckets.complete" || between == nil {
			return nil
		}
		call := between
		between = nil
		return call()
	}}, nil))

	ctx, owner := t.Context(), buckets.AccountID(buckets.NewUUID())
	b := buckets.BucketRef{Name: "photos", ID: buckets.BucketID(buckets.NewUUID())}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	must("CreateAccount", other.CreateAccount(ctx, buckets.Account{ID: owner, Name: "main", Created: now}))
	_, err := other.CreateBucket(ctx, owner, b, now)
	must("CreateBucket", err)
	c := buckets.Completion{Object: buckets.ObjectID(buckets.NewUUID()), Parts: []buckets.PartRef{{Number: 1, ETag: strings.Repeat("00", 16)}}, Now: now}
	for _, k := range []struct {
		name    string
		between func(u buckets.UploadID) error
		body    string
	}{
		{"the part is replaced", func(u buckets.UploadID) error {
			return other.PutPart(ctx, buckets.UploadKey{Owner: owner, Bucket: b, Name: "a", ID: u}, onePart("new"))
		}, "new"},
		{"a part is added", func(u buckets.UploadID) error {
			p := onePart("other")
			p.Number = 2
			return other.PutPart(ctx, buckets.UploadKey{Owner: owner, Bucket: b, Name: "a", ID: u}, p)
		}, "old"},
		{"it is completed", func(u buckets.UploadID) error {
			again := c
			again.Object = buckets.ObjectID(buckets.NewUUID())
			_, err := other.Complete(ctx, buckets.UploadKey{Owner: owner, Bucket: b, Name: "a", ID: u}, again)
			return err
		}, "old"},
	} {
		t.Run(k.name, func(t *testing.T) {
			u := buckets.Upload{ID: buckets.NewUploadID(now), Name: "a", Created: now}
			must("CreateUpload", other.CreateUpload(ctx, owner, b, u))
			must("PutPart", other.PutPart(ctx, buckets.UploadKey{Owner: owner, Bucket: b, Name: "a", ID: u.ID}, onePart("old")))
			between = func() error { return k.between(u.ID) }
			w, err := s.Complete(ctx, buckets.UploadKey{Owner: owner, Bucket: b, Name: "a", ID: u.ID}, c)
			must("Complete", err)
			if between != nil {
				t.Fatal("nothing came between")
			}
			stored, err := other.Get(ctx, owner, b.ID, "a")
			must("Get", err)
			segments, err := other.Segments(ctx, owner, u.ID, 0, 9)
			must("Segments", err)
			if w.Object.ID != stored.ID || stored.Upload != u.ID || len(segments) != 1 || !bytes.Equal(segments[0].Inline, []byte(k.body)) || segments[0].Start != 0 {
				t.Errorf("completed as %+v, stored %+v with %+v", w.Object, stored, segments)
			}
		})
	}
	if wrong, err := other.Audit(ctx, owner, false); err != nil || len(wrong) > 0 {
		t.Errorf("%+v, %v", wrong, err)
	}
}

func onePart(body string) buckets.Part {
	return buckets.Part{Number: 1, Created: now, Body: buckets.Body{
		ID: buckets.ObjectID(buckets.NewUUID()), Length: int64(len(body)), MD5: make([]byte, 16), Inline: []byte(body),
	}}
}
