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
	"holdfast/test/binary"
)

// The database is stopped and started as its operator does it: the fast way,
// which ends its clients' connections, and the smart one, which waits for them
// and takes no new ones.
func TestDatabaseStops(t *testing.T) {
	t.Parallel()
	db := testdb.OwnPostgres(t, testdb.PostgresOptions{})
	o := newOutage(t, db.URL(), db.URL())
	o.rounds(10, func(round int) fault {
		choose := o.choice(round)
		return fault{strike: func() {
			if round%2 == 1 {
				must(t, syscall.Kill(db.PID(), syscall.SIGTERM))
				o.await(o.load.after(10)) // on the connections that there are
			}
			must(t, db.Stop())
			o.hold(round, choose)
			must(t, db.Start())
		}, recover: func() {
			o.connect()
			o.recovered()
		}}
	})
	o.end()
}

// Others take the connections that the server needs: all that the database has,
// or all that it allows the server's role.
func TestNoConnectionLeft(t *testing.T) {
	t.Parallel()
	db := testdb.OwnPostgres(t, testdb.PostgresOptions{Settings: []string{"max_connections=40"}})
	admin, err := pgx.Connect(t.Context(), db.URL())
	must(t, err)
	_, err = admin.Exec(t.Context(), `
		CREATE ROLE holdfast LOGIN; GRANT CREATE ON SCHEMA public TO holdfast;
		CREATE ROLE others LOGIN`)
	must(t, err)
	must(t, admin.Close(t.Context()))
	o := newOutage(t, db.URL(), as("holdfast", db.URL()))
	o.rounds(10, func(round int) fault {
		choose := o.choice(round)
		terminate := func() { // at least one, and any number
			o.execute(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'holdfast' ORDER BY random() LIMIT $1`, 1+choose.IntN(10))
		}
		return fault{strike: func() {
			if round%2 == 0 {
				o.execute(`ALTER ROLE holdfast CONNECTION LIMIT 0`)
				terminate()
				o.hold(round, choose)
				o.execute(`ALTER ROLE holdfast CONNECTION LIMIT -1`)
				return
			}
			taken := takeAll(t, as("others", db.URL()))
			terminate()
			taken = append(taken, takeAll(t, as("others", db.URL()))...)
			o.hold(round, choose)
			for _, conn := range taken {
				must(t, conn.Close(t.Context()))
			}
		}, recover: o.recovered}
	})
	o.end()
}

// as is the URL for another role.
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

// A pool of two connections, and many who need one, while others hold what the
// two wait for.
func TestPoolOfTwo(t *testing.T) {
	t.Parallel()
	db := testdb.PostgresDatabase(t)
	o := newOutage(t, db, db, "HOLDFAST_SYNCSTORAGE__DATABASE_POOL_MAX_SIZE=2", "HOLDFAST_EXTSTORAGE__DATABASE_POOL_MAX_SIZE=2")
	for len(o.writers) < 64 {
		o.join(newUser(t, secret, int64(len(o.users)+1)), 11)
	}
	o.rounds(10, func(round int) fault {
		choose := o.choice(round)
		return fault{strike: func() {
			o.locked(`SELECT 1 FROM user_collections WHERE collection_id = 0 AND user_id IN (1, 2) FOR UPDATE`, func() { o.hold(round, choose) })
		}, recover: o.recovered}
	})
	o.end()
}

// Others hold rows, or a whole table, that requests need.
func TestLocks(t *testing.T) {
	t.Parallel()
	db := testdb.PostgresDatabase(t)
	o := newOutage(t, db, db)
	locks := []string{
		`SELECT 1 FROM user_collections WHERE collection_id = 0 FOR UPDATE`,
		`LOCK TABLE user_collections IN ACCESS EXCLUSIVE MODE`,
		`LOCK TABLE bsos IN ACCESS EXCLUSIVE MODE`,
		`SELECT 1 FROM ext_storage_usage FOR UPDATE`,
		`LOCK TABLE ext_storage_records IN ACCESS EXCLUSIVE MODE`,
		`LOCK TABLE ext_storage_outbox IN ACCESS EXCLUSIVE MODE`,
	}
	o.rounds(20, func(round int) fault {
		choose := o.choice(round)
		return fault{strike: func() {
			o.locked(locks[round%len(locks)], func() { o.hold(round, choose) })
		}, recover: o.recovered}
	})
	o.end()
}

// locked does something while a transaction of the operator holds a lock.
func (o *outage) locked(sql string, during func()) {
	o.t.Helper()
	o.execute(`BEGIN`)
	o.execute(sql)
	during()
	o.execute(`ROLLBACK`)
}

// The processes of the database stand still: those that serve the server, or
// all. They answer nobody, and nobody hears that they are gone.
func TestFrozenDatabase(t *testing.T) {
	t.Parallel()
	db := testdb.OwnPostgres(t, testdb.PostgresOptions{})
	o := newOutage(t, db.URL(), db.URL())
	var pids []int
	signal := func(sig syscall.Signal) {
		for _, pid := range pids {
			if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Error(err)
			}
		}
	}
	t.Cleanup(func() { signal(syscall.SIGCONT) }) // the server cannot be ended otherwise
	o.rounds(20, func(round int) fault {
		choose := o.choice(round)
		return fault{strike: func() {
			rows, err := o.admin.Query(t.Context(), `SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'holdfast%' OR $1 AND pid <> pg_backend_pid()`, round%2 == 1)
			must(t, err)
			pids, err = pgx.CollectRows(rows, pgx.RowTo[int])
			must(t, err)
			if round%2 == 1 {
				pids = append(pids, db.PID())
			}
			signal(syscall.SIGSTOP)
			o.hold(round, choose)
			signal(syscall.SIGCONT)
		}, recover: o.recovered}
	})
	o.end()
}

// Two servers share a database, and writers of each user are at both. One of
// them dies, or is told to end, and comes back while the other goes on.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	db := testdb.PostgresDatabase(t)
	o := newOutage(t, db, db)
	o.second = o.serve()
	o.rounds(20, func(round int) fault {
		victim := []**binary.Server{&o.server, &o.second}[round%2]
		end := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[round/2%2]
		var fresh *binary.Server
		return fault{strike: func() {
			(*victim).Signal(end)
			o.await(o.load.after(10)) // of the other
			<-(*victim).Ended
			fresh = o.serve()
			o.await(o.load.after(10))
		}, recover: func() {
			*victim = fresh
			o.recovered()
		}, deadly: true}
	})
	o.end()
}
