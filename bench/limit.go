package main

import (
	"context"
	"fmt"
	"time"
)

// limit is the bare engine: what no server on top of it can exceed.
type limit interface {
	// window does a work for so long and returns operations per second. There
	// are as many callers as the server has clients.
	window(ctx context.Context, work string, callers int, d time.Duration) (float64, error)

	// stage adds the i-th 100 records to the batch of a user, or as many as it
	// has, and opens it with the first; commit moves them to the others. A user
	// has one batch.
	stage(ctx context.Context, user int64, i int) error
	commit(ctx context.Context, user int64) error

	// settle is engine.settle.
	settle(ctx context.Context) error

	close() error
}

// firstUser is the first of the limit's users, far from the server's: on
// PostgreSQL both are in one database. Users of batches come behind the others.
const firstUser = 1_000_001

// openLimit makes what server.fill makes, for the limit's users.
func openLimit(ctx context.Context, e *engine, users, batch int) (limit, error) {
	if e.spanner != nil {
		return openSpanner(ctx, e, users, batch)
	}
	if e.postgres == nil {
		return openSQLite(ctx, e, users, batch)
	}
	return openPostgres(ctx, e, users, batch)
}

func unknown(work string) error { return fmt.Errorf("no limit for %s", work) }

// found is a record as a reader of the tables has it.
type found struct {
	id        string
	modified  time.Time
	sortindex *int64
	payload   []byte
}

// infoRows are the user's own and those of three collections.
const infoRows = 4

// checked refuses a read that found other rows than there must be: a limit
// that reads nothing would be fast.
func checked(rows, want int, err error) error {
	if err == nil && rows != want {
		err = fmt.Errorf("read %d rows, want %d", rows, want)
	}
	return err
}

// ids are those of n records.
func ids(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = id(i)
	}
	return all
}
