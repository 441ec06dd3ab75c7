package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

func rowsHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "Windows of %v, medians of %d, %d connections, records of %d B.\n\n| rows of the server | of a user | users | engine | PUT/s | server CPU µs/op | engine CPU µs/op |\n|--:|--:|--:|---|--:|--:|--:|\n", o.window, o.runs, o.size.rowsCallers, o.size.rowsPayload)
}

// measureRows lets a table grow and tells what a PUT costs at each size: first
// of records of any user, then of users of whom one has much more than others.
func measureRows(ctx context.Context, o *options, e *engine, out io.Writer) error {
	return onServer(ctx, o, e, nil, func(s *server) error {
		have, perUser := 0, o.size.manyRecords
		for _, rows := range o.rows {
			users := max(1, rows/perUser)
			if err := s.grow(ctx, 1+have, users-have, perUser, o.size.rowsPayload); err != nil {
				return err
			}
			have = users
			line := rowsLine{rows: have * perUser, perUser: perUser, uids: spread(have, o.size.users)}
			if err := line.measure(ctx, o, s, out); err != nil {
				return err
			}
		}
		big := have + 1
		if err := s.grow(ctx, big, 1, o.size.ofOne, o.size.rowsPayload); err != nil {
			return err
		}
		rows := have*perUser + o.size.ofOne
		for _, line := range []rowsLine{{rows, perUser, []int64{1}}, {rows, o.size.ofOne, []int64{int64(big)}}} {
			if err := line.measure(ctx, o, s, out); err != nil {
				return err
			}
		}
		return nil
	})
}

// spread is every so-many-th of the uids from 1 to n, at most so many.
func spread(n, most int) (uids []int64) {
	most = min(n, most)
	for i := range most {
		uids = append(uids, 1+int64(i)*int64(n)/int64(most))
	}
	return uids
}

// rowsLine is a line of the table: what it costs to rewrite a record of one of
// the users.
type rowsLine struct {
	rows, perUser int
	uids          []int64
}

func (l *rowsLine) measure(ctx context.Context, o *options, s *server, out io.Writer) error {
	users := make([]credentials, len(l.uids))
	for i, uid := range l.uids {
		var err error
		if users[i], err = s.user(uid); err != nil {
			return err
		}
	}
	body := object(record{Payload: payload(o.size.rowsPayload)})
	load := func(more more) (phase, error) {
		callers, hangUp, err := dialAll(ctx, slices.Repeat(users[:1], o.size.rowsCallers))
		if err != nil {
			return phase{}, err
		}
		defer hangUp()
		return s.measured(ctx, len(callers), more, func(ctx context.Context, c, _ int) error {
			callers[c].credentials = users[rand.IntN(len(users))]
			_, err := callers[c].send(ctx, http.MethodPut, "/storage/"+putCollection+"/"+id(rand.IntN(l.perUser)), body, "")
			return err
		})
	}
	var samples []sample
	for i := range 1 + o.runs {
		p, err := load(lasting(o.window))
		if err != nil {
			return err
		}
		if i > 0 { // the first warms the caches
			samples = append(samples, p.sample())
		}
	}
	if err := l.check(ctx, users); err != nil {
		return err
	}
	fmt.Fprintf(out, "| %s | %s | %s | %s | %.0f | %d | %s |\n", thousands(l.rows), thousands(l.perUser), thousands(len(users)), s.engine.name,
		median(samples, func(s sample) float64 { return s.ops }),
		median(samples, func(s sample) time.Duration { return s.cpu }).Microseconds(),
		engineCPU(median(samples, func(s sample) time.Duration { return s.engine })))
	return s.profile(ctx, o, fmt.Sprintf("rows-%s-%d-%d", s.engine.name, l.rows, l.perUser), func(more more) error {
		_, err := load(more)
		return err
	})
}

// check refuses PUTs that have made records instead of rewriting those that are
// there.
func (l *rowsLine) check(ctx context.Context, users []credentials) error {
	all, hangUp, err := dialAll(ctx, []credentials{users[0], users[len(users)-1]})
	if err != nil {
		return err
	}
	defer hangUp()
	for _, c := range all {
		got, err := c.send(ctx, http.MethodGet, "/info/collection_counts", nil, "")
		if err != nil {
			return err
		}
		if want := fmt.Sprintf(`{"%s":%d}`, putCollection, l.perUser); string(got) != want {
			return fmt.Errorf("a user has %s, want %s", got, want)
		}
		ends := "/storage/" + putCollection + "?ids=" + id(0) + "," + id(l.perUser-1)
		if _, err := c.send(ctx, http.MethodGet, ends, nil, "2"); err != nil {
			return err
		}
	}
	return nil
}

// grow gives users with ids from first on so many records each, past the
// server, which is stopped meanwhile: through it, it would take hours.
func (s *server) grow(ctx context.Context, first, users, records, bytes int) error {
	return s.fill(ctx, func() error {
		if s.engine.postgres != nil {
			return s.engine.growPostgres(ctx, first, users, records, bytes)
		}
		return growSQLite(file(s.data()), first, users, records, bytes)
	})
}

// fill fills the tables past the server, which is stopped meanwhile.
func (s *server) fill(ctx context.Context, fill func() error) error {
	s.stop()
	if err := fill(); err != nil {
		return fmt.Errorf("fill the tables: %w", err)
	}
	return s.start(ctx)
}

// The tables as a server would have filled them. A record is as old as its id
// is small.
const (
	liteGrowUsers = `
		WITH RECURSIVE u (id) AS (SELECT ?1 UNION ALL SELECT id + 1 FROM u WHERE id < ?1 + ?2 - 1)
		INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes)
		SELECT id, c.collection_id, 1700000000000, c.count, c.count * ?4
		FROM u CROSS JOIN (SELECT 0 AS collection_id, 0 AS count UNION ALL SELECT ?5, ?3) c`
	liteGrowRecords = `
		WITH RECURSIVE r (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < ?2 * ?3 - 1)
		INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload)
		SELECT ?1 + i / ?3, ?5, 100000000000 + i % ?3, 1600000000000 + i % ?3 * 10, CAST(?6 AS BLOB) FROM r WHERE ?4 > 0`

	pgGrowUsers = `
		INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes)
		SELECT u, c.id, timestamp '2023-11-14', c.n, c.n * %[4]d
		FROM generate_series(%[1]d, %[1]d + %[2]d - 1) u CROSS JOIN (VALUES (0, 0), (%[5]d, %[3]d)) c (id, n)`
	pgGrowRecords = `
		INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload)
		SELECT %[1]d + i / %[3]d, %[5]d, (100000000000 + i %% %[3]d)::text, timestamp '2020-09-13' + i %% %[3]d * interval '10 milliseconds', '%[6]s'::bytea
		FROM generate_series(0, %[2]d::bigint * %[3]d - 1) i`
)

func growSQLite(file string, first, users, records, bytes int) error {
	return fillFile(file, func(c *sqlite.Conn) error {
		args := []any{first, users, records, bytes, collectionIDs[putCollection]}
		if err := sqlitex.ExecuteTransient(c, liteGrowUsers, &sqlitex.ExecOptions{Args: args}); err != nil {
			return err
		}
		return sqlitex.ExecuteTransient(c, liteGrowRecords, &sqlitex.ExecOptions{Args: append(args, payload(bytes))})
	})
}

// fillFile opens a file so that nothing of it is kept but in its end.
func fillFile(file string, fill func(*sqlite.Conn) error) error {
	return withFile(file, func(c *sqlite.Conn) error {
		for _, pragma := range []string{
			`journal_mode = OFF`, `synchronous = OFF`, `locking_mode = EXCLUSIVE`, `cache_size = -262144`, `foreign_keys = OFF`,
		} {
			if err := sqlitex.ExecuteTransient(c, `PRAGMA `+pragma, nil); err != nil {
				return err
			}
		}
		return fill(c)
	})
}

// growPostgres leaves nothing to be tidied up or written in the background.
func (e *engine) growPostgres(ctx context.Context, first, users, records, bytes int) error {
	script := func(sql string) string {
		return fmt.Sprintf(sql, first, users, records, bytes, collectionIDs[putCollection], payload(bytes))
	}
	return e.exec(ctx,
		`SET session_replication_role = replica`, // no look at the parents of every row
		script(pgGrowUsers), script(pgGrowRecords),
		`VACUUM ANALYZE user_collections, bsos`, `CHECKPOINT`)
}
