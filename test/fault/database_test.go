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
)

// The database is stopped and started by its operator: in fast mode, which closes the connections
// of clients, and in smart mode, which waits for them and accepts no new ones.
func TestDatabaseStops(t *testing.T) {
	t.Parallel()
	db := testdb.OwnPostgres(t, testdb.PostgresOptions{})
	o := newOutage(t, db.URL(), db.URL())
	o.rounds(2, func(round int) fault {
		choose := o.choice(round)
		return fault{inject: func() {
			if round%2 == 1 {
				must(t, syscall.Kill(db.PID(), syscall.SIGTERM))
				o.await(o.load.after(10)) // on the existing connections
			}
			must(t, db.Stop())
			o.hold(round, 2, choose)
			must(t, db.Start())
		}, recover: func() {
			o.connect()
			o.recovered()
		}}
	})
	o.end()
}

// Others use up the connections that the server needs: all of the database, or all that the
// server's role may have.
func TestNoConnectionLeft(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it waits for a minute")
	db := testdb.OwnPostgres(t, testdb.PostgresOptions{Settings: []string{"max_connections=40"}})
	admin, err := pgx.Connect(t.Context(), db.URL())
	must(t, err)
	_, err = admin.Exec(t.Context(), `
		CREATE EXTENSION hstore;
		CREATE ROLE holdfast LOGIN; GRANT CREATE ON SCHEMA public TO holdfast; GRANT CREATE ON DATABASE postgres TO holdfast;
		CREATE ROLE others LOGIN`)
	must(t, err)
	must(t, admin.Close(t.Context()))
	o := newOutage(t, db.URL(), as("holdfast", db.URL()))
	o.rounds(2, func(round int) fault {
		choose := o.choice(round)
		terminate := func() { // at least one, and all if a write must be refused
			n := 1 + choose.IntN(10)
			if lasts(round, 2) {
				n = 1000
			}
			o.execute(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'holdfast' ORDER BY random() LIMIT $1`, n)
		}
		return fault{inject: func() {
			if round%2 == 1 {
				o.execute(`ALTER ROLE holdfast CONNECTION LIMIT 0`)
				terminate()
				o.hold(round, 2, choose)
				o.execute(`ALTER ROLE holdfast CONNECTION LIMIT -1`)
				return
			}
			taken := takeAll(t, as("others", db.URL()))
			terminate()
			taken = append(taken, takeAll(t, as("others", db.URL()))...)
			o.hold(round, 2, choose)
			for _, conn := range taken {
				must(t, conn.Close(t.Context()))
			}
		}, recover: o.recovered}
	})
	o.end()
}

// as returns the URL for another role.
func as(role, base string) string {
	u, err := url.Parse(base)
	if err != nil {
		panic(err) // testdb made it
	}
	u.User = url.User(role)
	return u.String()
}

// takeAll connects until the database refuses.
func takeAll(t *testing.T, url string) (taken []*pgx.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, url)
		if full := (*pgconn.PgError)(nil); errors.As(err, &full) && full.Code == "53300" {
			return taken
		}
		must(t, err)
		taken = append(taken, conn)
	}
}

// Many requests need one of two connections, which wait for a lock that others hold.
func TestPoolOfTwo(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it waits for a minute")
	db := testdb.PostgresDatabase(t)
	o := newOutage(t, db, db, settings(services(), "DATABASE_POOL_MAX_SIZE", "2")...)
	var rows []string
	for i, s := range services() {
		o.workloads[i].grow(t, 12)
		rows = append(rows, s.someRows)
	}
	// A quarter of them by default, other ones in each run.
	o.choice(0xffff).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	o.rounds(uint64(len(rows)+1)/2, func(round int) fault {
		choose := o.choice(round)
		return fault{inject: func() {
			o.locked(rows[round%len(rows)], func() { o.hold(round, len(rows), choose) })
		}, recover: o.recovered}
	})
	o.end()
}

// Others lock rows, or a whole table, that requests need.
func TestLocks(t *testing.T) {
	t.Parallel()
	db := testdb.PostgresDatabase(t)
	o := newOutage(t, db, db)
	var locks []string
	for _, s := range services() {
		locks = append(locks, s.locks...)
	}
	// A quarter of them by default, other ones in each run.
	o.choice(0xffff).Shuffle(len(locks), func(i, j int) { locks[i], locks[j] = locks[j], locks[i] })
	o.rounds(uint64(len(locks)+3)/4, func(round int) fault {
		choose := o.choice(round)
		return fault{inject: func() {
			o.locked(locks[round%len(locks)], func() { o.hold(round, len(locks), choose) })
		}, recover: o.recovered}
	})
	o.end()
}

// locked calls a function while a transaction of the operator holds a lock.
func (o *outage) locked(sql string, during func()) {
	o.t.Helper()
	o.execute(`BEGIN`)
	o.execute(sql)
	during()
	o.execute(`ROLLBACK`)
}
