package storetest

import (
	"encoding/json"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/optional"
)

// Migrated checks a backend on migrated data: everything is unchanged, and writes continue. For each schema version,
// a backend has a script in testdata/schema that writes this data into an empty database, at these microseconds after
// second 1,700,000,000. IDs are a letter, zeros and a number; an MD5 is 15 zeros and a number.
//
//	1       account a1, main, quota 5 objects and 1,000 bytes
//	2       access key KEY with secret "s", revoked at 3
//	4       active node east:1 at file:///srv
//	5       bucket b1, photos, public, which claims its name
//	6, 7    object c1, a: "abc" in the row, creator a2, type text/plain,
//	        header m-a: ü, role f1, tag t=v, property own=1
//	8       object c2, b: 10 bytes, MD5 2, CRC32C ffffffff, on east:1
//	9       object c3, c: upload e1 with part 1, 20 bytes, MD5 3, on east:1, body d1
//	10      upload e2 for object d with part 1, 5 bytes, MD5 4, on east:1, body d2
//	11, 12  object c4, a: 7 bytes, MD5 5, on east:1, written and overwritten
//	13, 14  bucket b2, gone, created and deleted
func Migrated(t *testing.T, h Harness) {
	t.Helper()
	const then = buckets.Moment(1_700_000_000_000_000)
	u := &user{t: t, h: h, owner: buckets.AccountID(numbered('a', 1)), now: then + second}
	u.bucket = buckets.Bucket{
		BucketRef: buckets.BucketRef{Name: "photos", ID: buckets.BucketID(numbered('b', 1))}, Owner: u.owner, Created: then + 5,
		Settings: buckets.BucketSettings{PublicRead: true},
	}
	must(t, "Ping", h.Store.Ping(t.Context()))
	migratedAccount(u, then)

	photos, err := h.Store.Bucket(t.Context(), u.owner, "photos")
	must(t, "Bucket", err)
	equal(t, "the bucket", photos, u.bucket)
	equal(t, "the claim", u.claimOf("photos"), buckets.NameClaim{Name: "photos", Owner: u.owner, Claimed: then + 5})
	wantObject(t, "in the row", u.get("a"), buckets.Object{
		Name: "a", Created: then + 6, Modified: then + 7, Creator: buckets.AccountID(numbered('a', 2)), ContentType: "text/plain",
		Headers: map[string]string{"m-a": "ü"}, Roles: []string{numbered('f', 1)},
		Body:       buckets.Body{ID: buckets.ObjectID(numbered('c', 1)), Length: 3, MD5: inline("abc").MD5, Inline: []byte("abc")},
		Properties: buckets.Properties{Tags: map[string]string{"t": "v"}, Extra: json.RawMessage(`{"own":1}`)},
	})
	b := oldBody('c', 2, 10, 2)
	b.CRC32C = optional.Some(uint32(1<<32 - 1))
	wantObject(t, "on a node", u.get("b"), buckets.Object{Name: "b", Created: then + 8, Modified: then + 8, Body: b})
	parts := u.get("c")
	wantObject(t, "in parts", parts, buckets.Object{
		Name: "c", Created: then + 9, Modified: then + 9, Body: buckets.Body{ID: buckets.ObjectID(numbered('c', 3)), Length: 20},
		Properties: buckets.Properties{ETag: "00000000000000000000000000000009-1", Upload: buckets.UploadID(numbered('e', 1)), Parts: 1},
	})
	segments, err := h.Store.Segments(t.Context(), u.owner, parts.Upload, 0, 9)
	must(t, "Segments", err)
	equal(t, "segments", segments, []buckets.Segment{{Body: oldBody('d', 1, 20, 3), Number: 1}})
	u.wantBodies(append(old('c', 2), old('d', 1, 2)...), old('c', 4))
	migratedWrites(u, then)
}

func numbered(letter, n byte) string {
	return string(letter) + "0000000-0000-4000-8000-00000000000" + string('0'+n)
}

func old(letter byte, numbers ...byte) (ids []buckets.ObjectID) {
	for _, n := range numbers {
		ids = append(ids, buckets.ObjectID(numbered(letter, n)))
	}
	return ids
}

func oldBody(letter, n byte, length int64, md5 byte) buckets.Body {
	return buckets.Body{ID: old(letter, n)[0], Length: length, MD5: append(make([]byte, 15), md5), Sharks: []string{"east:1"}}
}

func migratedAccount(u *user, then buckets.Moment) {
	u.t.Helper()
	ctx := u.t.Context()
	a, err := u.h.Accounts.Account(ctx, "main")
	must(u.t, "Account", err)
	quota := buckets.Quota{Objects: 5, Bytes: 1000}
	equal(u.t, "the account", a, buckets.Account{ID: u.owner, Name: "main", Created: then + 1, Quota: quota})
	k, err := u.h.Accounts.Key(ctx, "KEY")
	must(u.t, "Key", err)
	equal(u.t, "the key", k, buckets.Key{ID: "KEY", Account: u.owner, Secret: []byte("s"), Created: then + 2, Revoked: then + 3})
	u.wantNodes(buckets.Node{ID: "east:1", URL: "file:///srv", State: buckets.NodeActive, Added: then + 4})
	u.wantUsage(3, 38)
	equal(u.t, "the quota", u.usage().Quota, quota)
	deleted, err := u.h.Collector.DeletedBuckets(ctx, u.now, 9)
	must(u.t, "DeletedBuckets", err)
	gone := buckets.Bucket{BucketRef: buckets.BucketRef{Name: "gone", ID: buckets.BucketID(numbered('b', 2))}, Owner: u.owner, Created: then + 13}
	equal(u.t, "deleted buckets", deleted, []buckets.DeletedBucket{{Bucket: gone, Deleted: then + 14}})
}

func migratedWrites(u *user, then buckets.Moment) {
	u.t.Helper()
	t := u.t
	claim, all := u.claim(9)
	equal(t, "garbage", all, []buckets.Garbage{{
		Owner: u.owner, Bucket: u.bucket.ID, Name: "a", ID: old('c', 4)[0], Length: 7, Sharks: []string{"east:1"}, Deleted: then + 12,
	}})
	equal(t, "removed", u.remove(claim, all), 1)
	_, err := u.tryPut(object("b"), buckets.Condition{Match: tags("00000000000000000000000000000003")})
	wantError(t, "Put", err, buckets.ErrPrecondition)
	_, err = u.tryPut(object("b"), buckets.Condition{Match: tags("00000000000000000000000000000002")})
	must(t, "Put", err)
	u.complete("d", buckets.UploadID(numbered('e', 2)), buckets.PartRef{Number: 1, ETag: "00000000000000000000000000000004"})
	u.wantUsage(4, 38)
	u.put("e")
	_, err = u.tryPut(object("f"), buckets.Condition{})
	wantQuota(t, "the sixth object", err, true)
	equal(t, "names", u.listed(buckets.Query{Limit: 2}), []string{"a", "b", "c", "d", "e"})
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		u.delete(name)
	}
	u.deleteBucket(u.ref())
	_, all = u.claim(9)
	equal(t, "garbage", len(all), 6) // 5 deleted, 1 overwritten
	u.wantUsage(0, 0)
}
