package storetest

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

func usageChecks() []check {
	return []check{
		{"Deltas", usageDeltas},
		{"QuotaOfBucket", func(t *testing.T, u *user) { quotaIsExact(t, u, u.ref()) }},
		{"QuotaOfAccount", func(t *testing.T, u *user) { quotaIsExact(t, u, buckets.BucketRef{}) }},
		{"BytesUnderConcurrency", func(t *testing.T, u *user) { bytesAreExact(t, u, u.ref()) }},
		{"BytesOfAccountUnderConcurrency", func(t *testing.T, u *user) { bytesAreExact(t, u, buckets.BucketRef{}) }},
		{"QuotaUnderChurn", quotaUnderChurn},
		{"QuotaOfParts", quotaOfParts},
		{"LoweredQuota", loweredQuota},
		{"Audit", auditRepairs},
	}
}

func (u *user) setQuota(b buckets.BucketRef, q buckets.Quota) {
	u.t.Helper()
	must(u.t, "SetQuota", u.h.Counters.SetQuota(u.t.Context(), u.owner, b, q))
}

func wantQuota(t tb, what string, err error, account bool) {
	t.Helper()
	if q, ok := errors.AsType[*buckets.QuotaError](err); !ok || q.Account != account {
		t.Errorf("%s: %v, want a QuotaError with Account %v", what, err, account)
	}
}

func usageDeltas(t *testing.T, u *user) {
	first, second := u.bucket, u.createBucket("second")
	u.put("a")
	u.bucket = second
	u.putObject(buckets.Object{Name: "b", Body: inline("abc")})
	u.setQuota(second.BucketRef, buckets.Quota{Objects: 9, Bytes: 1000})
	u.setQuota(buckets.BucketRef{}, buckets.Quota{Bytes: 5000})
	none := newRef("none")
	totals, err := u.h.Counters.BucketTotals(t.Context(), u.owner, []buckets.BucketRef{second.BucketRef, none, first.BucketRef})
	must(t, "BucketTotals", err)
	equal(t, "totals of buckets", totals, []buckets.BucketUsage{u.usage().Buckets[1], {Bucket: none}, u.usage().Buckets[0]})
	equal(t, "usage", u.usage(), buckets.AccountUsage{
		Total: buckets.Usage{Objects: 2, Bytes: 13}, Quota: buckets.Quota{Bytes: 5000},
		Buckets: []buckets.BucketUsage{
			{Bucket: first.BucketRef, Usage: buckets.Usage{Objects: 1, Bytes: 10}},
			{Bucket: second.BucketRef, Usage: buckets.Usage{Objects: 1, Bytes: 3}, Quota: buckets.Quota{Objects: 9, Bytes: 1000}},
		},
	})
	unknown := buckets.AccountID(buckets.NewUUID())
	all, err := u.h.Counters.Totals(t.Context(), []buckets.AccountID{unknown, u.owner, unknown})
	must(t, "Totals", err)
	equal(t, "totals", all, []buckets.AccountUsage{{}, {Total: buckets.Usage{Objects: 2, Bytes: 13}, Quota: buckets.Quota{Bytes: 5000}}, {}})
	all, err = u.h.Counters.Totals(t.Context(), nil)
	must(t, "Totals of none", err)
	equal(t, "totals of none", len(all), 0)
	a, err := u.h.Accounts.AccountByID(t.Context(), u.owner)
	must(t, "AccountByID", err)
	equal(t, "quota of the account", a.Quota, buckets.Quota{Bytes: 5000})
	u.wantAudit()
}

func quotaIsExact(t *testing.T, u *user, b buckets.BucketRef) {
	account := b == buckets.BucketRef{}
	u.setQuota(b, buckets.Quota{Objects: 2, Bytes: 25})
	u.put("a")
	u.put("b")
	before := u.everything()
	_, err := u.tryPut(buckets.Object{Name: "c", Body: inline("")}, buckets.Condition{})
	wantQuota(t, "a third object", err, account)
	big := buckets.Object{Name: "a", Body: stored(16)}
	_, err = u.tryPut(big, buckets.Condition{})
	wantQuota(t, "26 bytes", err, account)
	equal(t, "afterwards", u.everything(), before)
	big.Length = 15
	u.putObject(big)
	u.wantUsage(2, 25)
	u.delete("b")
	u.put("b")
	u.setQuota(b, buckets.Quota{})
	u.put("c")
	u.wantUsage(3, 35)
}

func bytesAreExact(t *testing.T, u *user, b buckets.BucketRef) {
	u.setQuota(b, buckets.Quota{Bytes: 375})
	errs := testdb.Concurrently(parallel, func(i int) error {
		_, err := u.tryPut(object(fmt.Sprint(i)), buckets.Condition{})
		return err
	})
	won := suite.Winners(t, errs, func(err error) bool { _, ok := errors.AsType[*buckets.QuotaError](err); return ok })
	equal(t, "objects", won, 37)
	u.wantUsage(37, 370)
}

func quotaUnderChurn(t *testing.T, u *user) {
	const writers, each, rounds = 20, 3, 4
	quota := buckets.Quota{Objects: writers * each, Bytes: 10 * writers * each}
	u.setQuota(u.ref(), quota)
	u.setQuota(buckets.BucketRef{}, quota)
	testdb.Concurrently(writers, func(i int) error {
		for round := range rounds {
			for k := range each {
				_, err := u.tryPut(object(fmt.Sprint(i, "/", k)), buckets.Condition{})
				wantError(t, "Put", err, nil)
			}
			for k := range each {
				if round == rounds-1 {
					break
				}
				_, err := u.tryDelete(fmt.Sprint(i, "/", k), buckets.Condition{})
				wantError(t, "Delete", err, nil)
			}
		}
		return nil
	})
	u.wantUsage(writers*each, 10*writers*each)
	errs := testdb.Concurrently(writers, func(i int) error {
		_, err := u.tryPut(buckets.Object{Name: fmt.Sprint("more", i), Body: inline("")}, buckets.Condition{})
		return err
	})
	for _, err := range errs {
		wantQuota(t, "one more", err, false)
	}
	u.delete("0/0")
	u.put("0/0")
	u.setQuota(buckets.BucketRef{}, buckets.Quota{})
	u.setQuota(u.ref(), buckets.Quota{})
	u.put("more")
	u.wantUsage(writers*each+1, 10*writers*each+10)
}

func quotaOfParts(t *testing.T, u *user) {
	u.setQuota(u.ref(), buckets.Quota{Objects: 1, Bytes: 20})
	id := u.createUpload("a", u.now)
	ref := u.putPart("a", id, part(1, 20, u.now))
	over := u.h.Uploads.PutPart(t.Context(), u.key("a", id), part(2, 1, u.now))
	wantQuota(t, "21 bytes", over, false)
	over = u.h.Uploads.PutPart(t.Context(), u.key("a", id), part(1, 21, u.now))
	wantQuota(t, "a larger part", over, false)
	u.putObject(buckets.Object{Name: "b", Body: inline("")})
	_, err := u.tryComplete("a", id, []buckets.PartRef{ref}, buckets.Condition{})
	wantQuota(t, "a second object", err, false)
	u.delete("b")
	u.complete("a", id, ref)
	u.wantUsage(1, 20)
}

func loweredQuota(t *testing.T, u *user) {
	u.put("a")
	u.put("b")
	u.setQuota(u.ref(), buckets.Quota{Objects: 1, Bytes: 5})
	u.putObject(buckets.Object{Name: "a", Body: stored(9)})
	_, err := u.tryPut(buckets.Object{Name: "a", Body: stored(10)}, buckets.Condition{})
	wantQuota(t, "more bytes", err, false)
	u.delete("b")
	u.wantUsage(1, 9)
}

func auditRepairs(t *testing.T, u *user) {
	id := u.createUpload("up", u.now)
	u.putPart("up", id, part(1, 5, u.now))
	multi := u.createUpload("m", u.now)
	u.complete("m", multi, u.putPart("m", multi, part(1, 7, u.now)))
	gone := u.createUpload("gone", u.now)
	u.putPart("gone", gone, part(1, 90, u.now))
	must(t, "Abort", u.h.Uploads.Abort(t.Context(), u.key("gone", gone), u.now))
	u.put("a")
	u.wantUsage(2, 22)
	if u.h.Damage == nil {
		t.Skip("the backend has no Damage in its Harness")
	}
	u.h.Damage(t, `UPDATE manta_bucket_usage SET objects = objects + 3, bytes = bytes - 4 WHERE owner = '`+string(u.owner)+`' AND bucket_id = '`+string(u.bucket.ID)+`'`)
	counted, right := buckets.Usage{Objects: 5, Bytes: 18}, buckets.Usage{Objects: 2, Bytes: 22}
	for _, repair := range []bool{false, true} {
		wrong, err := u.h.Counters.Audit(t.Context(), u.owner, repair)
		must(t, "Audit", err)
		equal(t, "wrong counters", wrong, []buckets.Miscount{{Bucket: u.bucket.ID, Counted: counted, Stored: right}})
	}
	u.wantUsage(2, 22)
}
