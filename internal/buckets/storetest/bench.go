package storetest

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/optional"
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

// BenchmarkSize writes b.N objects, or fewer large ones, to an empty store from open. The function that open returns
// reports the bytes per object. Bodies above 16 KiB are on storage nodes, so their rows contain none.
func BenchmarkSize(b *testing.B, open func(*testing.B) (s buckets.Backend, report func(objects int))) {
	for name, size := range map[string]int{"1,000 B": 1000, "10,000 B": 10_000, "on a storage node": 0} {
		b.Run(name, func(b *testing.B) {
			s, report := open(b)
			node := buckets.NewUUID()
			owner, ref, n := buckets.AccountID(buckets.NewUUID()), newRef("objects"), max(1, b.N*1000/max(size, 1000))
			err := s.CreateAccount(b.Context(), buckets.Account{ID: owner, Name: "main", Created: start})
			if err == nil {
				_, err = s.CreateBucket(b.Context(), owner, ref, start)
			}
			for i := 0; i < n && err == nil; i++ {
				body := buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: int64(cmp.Or(size, 17_000)), MD5: []byte(suite.Text(i, 16))}
				if size > 0 {
					body.Inline = []byte(suite.Text(i, size))
				} else {
					body.Sharks, body.Frames = []string{node}, optional.Some(buckets.Frames{ID: uint64(i) << 40, CRC64NVME: uint64(i) << 32})
				}
				_, err = s.Put(b.Context(), owner, buckets.BucketRef{Name: ref.Name}, buckets.Put{
					Object: buckets.Object{Name: fmt.Sprint(100_000_000_000 + i), ContentType: "binary/octet-stream", Body: body}, Now: start,
				})
			}
			if err != nil {
				b.Fatal(err)
			}
			report(n)
		})
	}
}
