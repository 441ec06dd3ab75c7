package httpapi_test

import (
	"testing"

	"holdfast/internal/buckets"
)

func TestLockedObject(t *testing.T) {
	t.Parallel()
	onEachEngine(t, testLockedObject)
}

// testLockedObject checks that PATCH does not change a locked version and that DELETE only hides it.
func testLockedObject(t *testing.T, s *server) {
	o := s.put("k", hello, "m-a: 1")
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := s.store.Bucket(ctx, s.main.ID, "photos")
	must(err)
	must(s.service.LockNewBucket(ctx, b.Owner, b.BucketRef))
	_, err = s.service.UpdateObject(ctx, b.Owner, b.BucketRef, buckets.Update{Name: "k", Lock: &buckets.LockChange{Hold: buckets.HoldOn}})
	must(err)
	s.do("PATCH", metadata+"k", `{"headers": {"m-a": "2"}}`).fails(403, "AuthorizationFailed")
	s.do("PATCH", metadata+"k", `{"properties": {"s3": {"lock": {}}}}`).fails(400, "InvalidArgument")
	s.put("k", "another body")
	s.do("DELETE", objects+"k", "").is(204)
	s.do("GET", objects+"k", "").is(404)
	v, err := s.service.Version(ctx, b.Owner, b.ID, "k", buckets.NullVersion)
	must(err)
	if string(v.ID) != o.ID || v.Lock.Hold != buckets.HoldOn || v.Headers["m-a"] != "1" {
		t.Errorf("the locked version is %+v", v)
	}
}
