package pgdb

import (
	"context"
	"time"
)

var (
	// After waiting for another process's row lock, PostgreSQL evaluates the condition again with the new begun_at. A
	// round in the future began before the server's clock was set back.
	beginRound = Statement{Name: "sweep.begin", SQL: `
		INSERT INTO sweep_rounds AS latest (job, begun_at) VALUES ($1::text, clock_timestamp())
		ON CONFLICT (job) DO UPDATE SET begun_at = clock_timestamp()
		WHERE latest.begun_at NOT BETWEEN clock_timestamp() - $2::bigint * interval '1 microsecond' AND clock_timestamp()`}
	abortRound = Statement{Name: "sweep.abort", SQL: `UPDATE sweep_rounds SET begun_at = '-infinity' WHERE job = $1::text`}
)

// BeginRound begins a sweep round, and returns true, unless a process began a round within the interval, by the server's
// clock. A round needs no end; after a failure call AbortRound. job is unique in the database. See sweep.Rounds.
func (db *DB) BeginRound(ctx context.Context, job string, every time.Duration) (bool, error) {
	n, err := db.Exec(ctx, beginRound, job, every.Microseconds())
	return n > 0, err
}

// AbortRound makes the next BeginRound succeed, after a round that failed.
func (db *DB) AbortRound(ctx context.Context, job string) error {
	_, err := db.Exec(ctx, abortRound, job)
	return err
}
