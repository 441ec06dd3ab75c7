package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// BenchmarkPut compares a small PUT that finds its bucket by name with one that reads the
// bucket first. They take turns, so a busy machine slows down both.
func BenchmarkPut(b *testing.B) {
	db := opened.Postgres(b, pgdb.Options{URL: testdb.PostgresDatabase(b)}, postgres.Migrations)
	s := postgres.New(db)
	owner := buckets.AccountID(buckets.NewUUID())
	if err := s.CreateAccount(b.Context(), buckets.Account{ID: owner, Name: "main", Created: now}); err != nil {
		b.Fatal(err)
	}
	ref := buckets.BucketRef{Name: "photos", ID: buckets.BucketID(buckets.NewUUID())}
	if _, err := s.CreateBucket(b.Context(), owner, ref, now); err != nil {
		b.Fatal(err)
	}
	n := 0
	put := func(ref buckets.BucketRef) {
		n++
		body := buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: 4096, MD5: make([]byte, 16), Inline: make([]byte, 4096)}
		if _, err := s.Put(b.Context(), owner, ref, buckets.Put{Object: buckets.Object{Name: fmt.Sprint(n), Body: body}, Now: now}); err != nil {
			b.Fatal(err)
		}
	}
	var byName, read []time.Duration
	for b.Loop() {
		begun := time.Now()
		put(buckets.BucketRef{Name: ref.Name})
		between := time.Now()
		found, err := s.Bucket(b.Context(), owner, ref.Name)
		if err != nil {
			b.Fatal(err)
		}
		put(found.BucketRef)
		byName, read = append(byName, between.Sub(begun)), append(read, time.Since(between))
	}
	slices.Sort(byName)
	slices.Sort(read)
	b.ReportMetric(float64(byName[len(byName)/2].Microseconds()), "µs/by-name")
	b.ReportMetric(float64(read[len(read)/2].Microseconds()), "µs/read-first")
}
