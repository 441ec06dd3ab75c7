package postgres_test

import (
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/optional"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestFramesOfReplacedBody checks that stale frames are ignored: an earlier release that replaces a body sets its CRC32C
// but leaves the old frames.
func TestFramesOfReplacedBody(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, postgres.Migrations)
	s := postgres.New(db)
	owner, b := buckets.AccountID(buckets.NewUUID()), buckets.BucketRef{Name: "photos", ID: buckets.BucketID(buckets.NewUUID())}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.CreateAccount(t.Context(), buckets.Account{ID: owner, Name: "main"}))
	_, err := s.CreateBucket(t.Context(), owner, b, 1)
	must(err)
	frames := buckets.Frames{ID: 1, CRC64NVME: 2}
	_, err = s.Put(t.Context(), owner, b, buckets.Put{Object: buckets.Object{Name: "k", Body: buckets.Body{
		ID: buckets.ObjectID(buckets.NewUUID()), Length: 9, MD5: make([]byte, 16), Sharks: []string{"a:1"}, Frames: optional.Some(frames),
	}}, Now: 1})
	must(err)
	_, err = db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: "UPDATE manta_bucket_object SET content_crc32c = 7"})
	must(err)
	o, err := s.Get(t.Context(), owner, b.ID, "k")
	must(err)
	if o.Frames.Set || o.CRC32C != optional.Some(uint32(7)) {
		t.Errorf("frames %+v, CRC32C %+v", o.Frames, o.CRC32C)
	}
	frames.ID = 3
	set, err := s.SetFrames(t.Context(), buckets.Reference{Owner: owner, Bucket: b.ID, Name: "k", Body: o.Body}, frames)
	must(err)
	if o, err = s.Get(t.Context(), owner, b.ID, "k"); err != nil || !set || o.Frames != optional.Some(frames) || o.CRC32C.Set {
		t.Errorf("set %v: frames %+v, CRC32C %+v, %v", set, o.Frames, o.CRC32C, err)
	}
}
