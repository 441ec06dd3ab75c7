//test:unraced the benchmark measures, and SQLite takes twenty times as long under the race detector

package lifecycle_test

import (
	"crypto/md5"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/lifecycle"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/buckets/sqlite"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

const (
	benchOwner  = "00000000-0000-4000-8000-000000000001"
	benchBucket = "00000000-0000-4000-8000-000000000003"
)

type expiring interface {
	lifecycle.Store
	buckets.Store
	buckets.Accounts
}

// BenchmarkSweep measures how many objects expire per second while another bucket is written, and the latency of these
// writes. An iteration is an object:
//
//	go test -run ^$ -bench Sweep -benchtime 1000000x ./internal/buckets/lifecycle
func BenchmarkSweep(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		// TMPDIR should be on a disk, because writes wait until they are durable.
		db := opened.SQLite(b, sqlitedb.Options{Path: filepath.Join(b.TempDir(), "buckets.db")}, sqlite.Migrations)
		err := db.WriteAlone(b.Context(), "fill", func(c *zombiezen.Conn) error {
			return sqlitedb.Exec(c, `
				WITH RECURSIVE k (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < ?3)
				INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, content_type, properties, body)
				SELECT lower(hex(randomblob(4)) || '-0000-4000-8000-' || hex(randomblob(6))), printf('logs/%012d', n), ?1, ?2, 1, 1, 1,
					x'0cc175b9c0f1b6a831c399e269772661', 'binary/octet-stream', NULL, x'61' FROM k`, benchOwner, benchBucket, b.N)
		})
		if err != nil {
			b.Fatal(err)
		}
		benchSweep(b, sqlite.New(db))
	})
	b.Run("postgres", func(b *testing.B) {
		url := testdb.PostgresDatabase(b)
		db := opened.Postgres(b, pgdb.Options{URL: url}, postgres.Migrations)
		testdb.Script(b, url, `INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, content_type, body)
			SELECT gen_random_uuid(), 'logs/' || lpad(n::text, 12, '0'), '`+benchOwner+`', '`+benchBucket+`', '2020-01-01', '2020-01-01', 1,
				'\x0cc175b9c0f1b6a831c399e269772661', 'binary/octet-stream', 'a' FROM generate_series(1, `+strconv.Itoa(b.N)+`) n; ANALYZE manta_bucket_object`)
		benchSweep(b, postgres.New(db))
	})
}

func benchSweep(b *testing.B, s expiring) {
	ctx := b.Context()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	must(s.CreateAccount(ctx, buckets.Account{ID: benchOwner, Name: "main", Created: 1}))
	ref := buckets.BucketRef{Name: "logs", ID: benchBucket}
	_, err := s.CreateBucket(ctx, benchOwner, ref, 1)
	must(err)
	must(s.SetBucket(ctx, benchOwner, ref, buckets.SettingsChange{Lifecycle: &buckets.Lifecycle{Changed: 1, Bucket: ref.Name, Rules: []buckets.LifecycleRule{rule("a", "logs/", 1)}}}))
	other := buckets.BucketRef{Name: "other", ID: "00000000-0000-4000-8000-000000000004"}
	_, err = s.CreateBucket(ctx, benchOwner, other, 1)
	must(err)
	r := lifecycle.New(lifecycle.Options{Store: s, Clock: time.Now, Monotonic: time.Now, Log: slog.New(slog.DiscardHandler), Observe: func(buckets.LifecycleResult) {}})

	total := 0
	alone := withNeighbours(b, s, other, func() { time.Sleep(3 * time.Second) })
	beside := withNeighbours(b, s, other, func() {
		b.ResetTimer()
		for {
			n, err := r.Sweep(ctx, 500)
			must(err)
			if total += n; n < 500 {
				break
			}
		}
		b.StopTimer()
	})
	if total != b.N {
		b.Errorf("%d objects expired, want %d", total, b.N)
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "objects/s")
	b.ReportMetric(alone, "p99-alone-ms")
	b.ReportMetric(beside, "p99-beside-ms")
}

// withNeighbours writes objects to another bucket while fn runs. It returns the writes' 99th percentile in
// milliseconds.
func withNeighbours(b *testing.B, s expiring, ref buckets.BucketRef, fn func()) float64 {
	stop, times := make(chan struct{}), make([][]time.Duration, 4)
	var neighbours sync.WaitGroup
	for i := range times {
		neighbours.Go(func() { times[i] = neighbour(b, s, ref, stop) })
	}
	fn()
	close(stop)
	neighbours.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(times...)))
	if len(all) == 0 {
		return 0
	}
	return all[len(all)*99/100].Seconds() * 1000
}

func neighbour(b *testing.B, s expiring, ref buckets.BucketRef, stop chan struct{}) (times []time.Duration) {
	sum := md5.Sum([]byte("x"))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return times
		case <-tick.C:
		}
		id := buckets.NewUUID()
		o := buckets.Object{Name: id, Body: buckets.Body{ID: buckets.ObjectID(id), Length: 1, MD5: sum[:], Inline: []byte("x")}}
		began := time.Now()
		if _, err := s.Put(b.Context(), benchOwner, ref, buckets.Put{Object: o, Now: buckets.At(began)}); err != nil {
			b.Error(err)
			return times
		}
		times = append(times, time.Since(began))
	}
}
