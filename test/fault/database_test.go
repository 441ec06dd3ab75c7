package fault

import (
	"context"
	"errors"
	"net/url"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/testdb"
	"holdfast/test/fault/harness"
)

// TestDatabaseStops stops and starts the database like an operator: in fast mode, which closes client connections, and
// in smart mode, which waits for clients and rejects new connections.
func TestDatabaseStops(t *testing.T) {
	t.Parallel()
	db := testdb.OwnPostgres(t, testdb.PostgresOptions{})
	o := newOutage(t, db.URL(), db.URL())
	o.Rounds(2, func(round int) harness.Fault {
		choose := o.Choice(round)
		return harness.Fault{Inject: func() {
			if round%2 == 1 {
				harness.Must(t, syscall.Kill(db.PID(), syscall.SIGTERM))
				o.Await(o.Load.After(10)) // on existing connections
			}
			harness.Must(t, db.Stop())
			o.Hold(round, 2, choose)
			harness.Must(t, db.Start())
		}, Recover: func() {
			o.connect()
			o.recovered()
		}}
	})
	o.End()
}

// TestNoConnectionLeft lets other clients use up all database connections, or all connections allowed for the server's
// role.
func TestNoConnectionLeft(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it waits for a minute")
	db := testdb.OwnPostgres(t, testdb.PostgresOptions{Settings: []string{"max_connections=40"}})
	admin, err := pgx.Connect(t.Context(), db.URL())
	harness.Must(t, err)
	_, err = admin.Exec(t.Context(), `
		CREATE EXTENSION hstore;
		CREATE ROLE holdfast LOGIN; GRANT CREATE ON SCHEMA public TO holdfast; GRANT CREATE ON DATABASE postgres TO holdfast;
		CREATE ROLE others LOGIN`)
	harness.Must(t, err)
	harness.Must(t, admin.Close(t.Context()))
	o := newOutage(t, db.URL(), as("holdfast", db.URL()))
	o.Rounds(2, func(round int) harness.Fault {
		choose := o.Choice(round)
		terminate := func() { // closes at least one connection, and all if a write must be refused
			n := 1 + choose.IntN(10)
			if harness.Lasts(round, 2) {
				n = 1000
			}
			o.execute(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'holdfast' ORDER BY random() LIMIT $1`, n)
		}
		return harness.Fault{Inject: func() {
			if round%2 == 1 {
				o.execute(`ALTER ROLE holdfast CONNECTION LIMIT 0`)
				terminate()
				o.Hold(round, 2, choose)
				o.execute(`ALTER ROLE holdfast CONNECTION LIMIT -1`)
				return
			}
			taken := takeAll(t, as("others", db.URL()))
			terminate()
			taken = append(taken, takeAll(t, as("others", db.URL()))...)
			o.Hold(round, 2, choose)
			for _, conn := range taken {
				harness.Must(t, conn.Close(t.Context()))
			}
		}, Recover: o.recovered}
	})
	o.End()
}

func as(role, base string) string {
	u, err := url.Parse(base)
	if err != nil {
		panic(err) // testdb returns valid URLs
	}
	u.User = url.User(role)
	return u.String()
}

func takeAll(t *testing.T, url string) (taken []*pgx.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Bound)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, url)
		if full := (*pgconn.PgError)(nil); errors.As(err, &full) && full.Code == "53300" {
			return taken
		}
		harness.Must(t, err)
		taken = append(taken, conn)
	}
}

// TestPoolOfTwo checks many requests that share two connections, while other clients hold the locks that they need.
func TestPoolOfTwo(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it waits for a minute")
	db := testdb.PostgresDatabase(t)
	o := newOutage(t, db, db, harness.Settings(services(), "DATABASE_POOL_MAX_SIZE", "2")...)
	var rows []string
	for i, s := range services() {
		o.Workloads[i].Grow(t, 12)
		rows = append(rows, s.SomeRows)
	}
	// By default a quarter of the statements run, different in each run.
	o.Choice(0xffff).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	o.Rounds(uint64(len(rows)+1)/2, func(round int) harness.Fault {
		choose := o.Choice(round)
		return harness.Fault{Inject: func() {
			o.locked(rows[round%len(rows)], func() { o.Hold(round, len(rows), choose) })
		}, Recover: o.recovered}
	})
	o.End()
}

// TestLocks locks rows or whole tables that requests need.
func TestLocks(t *testing.T) {
	t.Parallel()
	db := testdb.PostgresDatabase(t)
	o := newOutage(t, db, db)
	var locks []string
	for _, s := range services() {
		locks = append(locks, s.Locks...)
	}
	o.Choice(0xffff).Shuffle(len(locks), func(i, j int) { locks[i], locks[j] = locks[j], locks[i] })
	o.Rounds(uint64(len(locks)+3)/4, func(round int) harness.Fault {
		choose := o.Choice(round)
		return harness.Fault{Inject: func() {
			o.locked(locks[round%len(locks)], func() { o.Hold(round, len(locks), choose) })
		}, Recover: o.recovered}
	})
	o.End()
}

func (o *outage) locked(sql string, during func()) {
	o.T.Helper()
	o.execute(`BEGIN`)
	o.execute(sql)
	during()
	o.execute(`ROLLBACK`)
}
