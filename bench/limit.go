package main

import (
	"context"
	"fmt"
	"time"
)

// limit is the bare engine: what no server on top of it can exceed.
type limit interface {
	name() string

	// databaseURL is what the server is to use; empty: a file of its own.
	databaseURL() string

	// window does a work for so long and returns operations per second. There
	// are as many callers and connections as the server has clients.
	window(ctx context.Context, work string, callers int, d time.Duration) (float64, error)

	// begin opens a batch of a new user, which the following append to and
	// commit.
	begin(ctx context.Context, user int64) error
	// stage adds 100 records, the first of them the from-th.
	stage(ctx context.Context, user int64, from int) error
	commit(ctx context.Context, user int64) error

	close() error
}

// firstUser is the first of the limit's users, far from the server's: on
// PostgreSQL both are in one database. Users of batches come behind the others.
const firstUser = 1_000_001

func openLimit(ctx context.Context, engine string) (limit, error) {
	if engine == "sqlite" {
		return openSQLite(ctx)
	}
	return openPostgres(ctx)
}

func unknown(work string) error { return fmt.Errorf("no limit for %s", work) }

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

// ids are those of n records, the first of them the from-th.
func ids(from, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = id(from + i)
	}
	return all
}
