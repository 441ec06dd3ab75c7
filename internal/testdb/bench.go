package testdb

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// BenchPostgres returns a benchmark database's URL and a pool. If durable is set, the server waits for the disk.
func BenchPostgres(b *testing.B, conns int, durable bool) (url string, pool *pgxpool.Pool) {
	b.Helper()
	if durable {
		url = DurablePostgres(b).URL()
	} else {
		url = PostgresDatabase(b)
	}
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	conf.MaxConns = int32(conns)
	if pool, err = pgxpool.NewWithConfig(b.Context(), conf); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return url, pool
}

// RunBench calls step from n goroutines until b.N calls are done.
func RunBench(b *testing.B, n int, step func(ctx context.Context, i int64) error) {
	b.Helper()
	var next atomic.Int64
	b.ResetTimer()
	errs := Concurrently(n, func(int) error {
		for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
			if err := step(b.Context(), i); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		b.Error(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
