package storetest

import (
	"fmt"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/suite"
)

// BenchmarkVersions compares overwrites with and without versioning.
func BenchmarkVersions(b *testing.B, s buckets.Backend) {
	b.Helper()
	owner := buckets.AccountID(buckets.NewUUID())
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	check(s.CreateAccount(b.Context(), buckets.Account{ID: owner, Name: "u" + string(owner), Created: start}))
	var refs [2]buckets.BucketRef
	for i, name := range []string{"plain", "versions"} {
		refs[i] = newRef(name)
		_, err := s.CreateBucket(b.Context(), owner, refs[i], start)
		check(err)
	}
	check(s.SetVersioning(b.Context(), owner, refs[1], buckets.VersioningEnabled))
	var took [2][]time.Duration
	for n := 0; b.Loop(); n++ {
		for i, ref := range refs {
			body := buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: 4096, MD5: make([]byte, 16), Inline: make([]byte, 4096)}
			begun := time.Now()
			_, err := s.Put(b.Context(), owner, buckets.BucketRef{Name: ref.Name}, buckets.Put{
				Object: buckets.Object{Name: fmt.Sprint("o", n%500), Body: body}, Now: start + buckets.Moment(n),
			})
			check(err)
			if n >= 500 {
				took[i] = append(took[i], time.Since(begun))
			}
		}
	}
	suite.ReportMedians(b, took, "plain", "versions")
}
