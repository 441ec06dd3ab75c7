//test:unraced the suite on PostgreSQL takes two minutes under the race detector

package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/buckets/storetest"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// BenchmarkPut compares small PUTs that find the bucket by name with PUTs that first read the bucket. The two alternate,
// so that a busy machine slows down both.
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

// BenchmarkList measures a page: the CPU time of this process, and the database's shortest times for bucket_list_v2 and
// for bucket_list_v1, which earlier releases call.
func BenchmarkList(b *testing.B) {
	db := opened.Postgres(b, pgdb.Options{URL: testdb.PostgresDatabase(b)}, postgres.Migrations)
	s := postgres.New(db)
	owner, ref := buckets.AccountID(buckets.NewUUID()), buckets.BucketRef{Name: "photos", ID: buckets.BucketID(buckets.NewUUID())}
	fill := pgdb.Statement{Name: "fill", SQL: `
		INSERT INTO manta_bucket_object (id, name, owner, bucket_id, creator, content_length, content_md5, content_type, properties, body)
		SELECT gen_random_uuid(), 'photos/' || lpad(n::text, 6, '0'), $1::uuid, $2::uuid, $1::uuid, n, decode(md5(n::text), 'hex'), 'image/jpeg',
			CASE WHEN $3::boolean THEN '{"s3": {"checksum": {"algorithm": "CRC64NVME", "value": "abcdefghijk="}}}'::jsonb END, decode(repeat('00', 200), 'hex')
		FROM generate_series(1, 20000) n`}
	for _, checksums := range []bool{false, true} {
		for _, st := range []pgdb.Statement{{Name: "clear", SQL: `TRUNCATE manta_bucket_object`}, {Name: "analyze", SQL: `ANALYZE manta_bucket_object`}} {
			if _, err := db.Exec(b.Context(), st); err != nil {
				b.Fatal(err)
			}
			if st.Name == "clear" {
				if _, err := db.Exec(b.Context(), fill, string(owner), string(ref.ID), checksums); err != nil {
					b.Fatal(err)
				}
			}
		}
		name := "without checksums"
		if checksums {
			name = "with checksums"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			q := buckets.Query{Prefix: "photos/", Limit: buckets.FirstSlice, Start: buckets.Position{Name: "photos/005"}}
			begun := processTime(b)
			for b.Loop() {
				if page, err := s.List(b.Context(), owner, ref.ID, q); err != nil || len(page.Entries) != q.Limit {
					b.Fatalf("%d entries, %v", len(page.Entries), err)
				}
			}
			b.ReportMetric(float64((processTime(b)-begun).Microseconds())/float64(b.N), "cpu-µs/page")
			v1, v2 := math.Inf(1), math.Inf(1)
			for range 50 {
				v1 = min(v1, executed(b.Context(), b, db, `SELECT bucket_list_v1`, owner, ref.ID))
				v2 = min(v2, executed(b.Context(), b, db, `SELECT bucket_list_v2 FROM bucket_list_v2`, owner, ref.ID))
			}
			b.ReportMetric(v1*1000, "v1-µs")
			b.ReportMetric(v2*1000, "v2-µs")
		})
	}
}

// BenchmarkKeys lists 100 objects, or 100 folders, in buckets with more and more keys.
func BenchmarkKeys(b *testing.B) {
	db := opened.Postgres(b, pgdb.Options{URL: testdb.PostgresDatabase(b)}, postgres.Migrations)
	s, owner := postgres.New(db), buckets.AccountID(buckets.NewUUID())
	fill := pgdb.Statement{Name: "fill", SQL: `
		INSERT INTO manta_bucket_object (id, name, owner, bucket_id, content_length, content_md5, content_type, body)
		SELECT gen_random_uuid(), lpad((n / ($3::int / 100))::text, 2, '0') || '/' || lpad(n::text, 12, '0'), $1::uuid, $2::uuid, 1, decode(md5(''), 'hex'), 'image/jpeg', '\x61'
		FROM generate_series(0, $3::int - 1) n`}
	for _, keys := range []int{1000, 1_000_000} {
		bucket := buckets.BucketID(buckets.NewUUID())
		_, err := db.Exec(b.Context(), fill, string(owner), string(bucket), keys)
		if err == nil {
			_, err = db.Exec(b.Context(), pgdb.Statement{Name: "analyze", SQL: `ANALYZE manta_bucket_object`})
		}
		if err != nil {
			b.Fatal(err)
		}
		for name, q := range map[string]buckets.Query{"page": {Limit: 100, Start: buckets.Position{Name: "50"}}, "groups": {Limit: 100, Delimiter: "/"}} {
			b.Run(fmt.Sprintf("%d/%s", keys, name), func(b *testing.B) {
				for b.Loop() {
					if page, err := s.List(b.Context(), owner, bucket, q); err != nil || len(page.Entries) != 100 {
						b.Fatalf("%d entries, %v", len(page.Entries), err)
					}
				}
			})
		}
	}
}

// executed returns a call's execution time in milliseconds.
func executed(ctx context.Context, b *testing.B, db *pgdb.DB, call string, owner buckets.AccountID, bucket buckets.BucketID) float64 {
	var text []byte
	var plans []struct {
		Time float64 `json:"Execution Time"`
	}
	_, err := db.QueryRow(ctx, pgdb.Statement{Name: "explain", SQL: `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ` + call +
		`($1::uuid, $2::uuid, 'photos/', '', 'photos/005', false, 501)`}, []any{string(owner), string(bucket)}, &text)
	if err == nil {
		err = json.Unmarshal(text, &plans)
	}
	if err != nil || len(plans) != 1 {
		b.Fatalf("%s: %v", text, err)
	}
	return plans[0].Time
}

func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkVersions(b *testing.B) {
	storetest.BenchmarkVersions(b, postgres.New(opened.Postgres(b, pgdb.Options{URL: testdb.PostgresDatabase(b)}, postgres.Migrations)))
}

func BenchmarkSize(b *testing.B) {
	storetest.BenchmarkSize(b, func(b *testing.B) (buckets.Backend, func(int)) {
		db := opened.Postgres(b, pgdb.Options{URL: testdb.PostgresDatabase(b)}, postgres.Migrations)
		return postgres.New(db), func(objects int) { opened.ReportSizes(b, opened.PostgresSizes(b, db), objects) }
	})
}
