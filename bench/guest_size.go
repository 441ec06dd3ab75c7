package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/clock"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	hotmemory "holdfast/internal/guest/memory"
	hotredis "holdfast/internal/guest/redis"
	"holdfast/internal/testdb"
	load "holdfast/internal/workload/guest"
)

func guestSizeHead(_ *options, out io.Writer) {
	fmt.Fprintf(out, "Rows are written through the server; then the tables are rewritten without gaps (VACUUM). In operation they take about a third more.\n\n")
	fmt.Fprintln(out, "| data | engine | number | bytes each | indexes, bytes each |")
	fmt.Fprintln(out, "|---|---|--:|--:|--:|")
}

var guestTables = []string{"wishlist_anonymous", "session_seen", "handoff_replay_log", "idempotency_keys", "bot_score_log", "outbox", "inbox"}

const guestOfSession = 10

func measureGuestSize(ctx context.Context, o *options, e *engine, out io.Writer) error {
	internal, err := testdb.FreePort()
	if err != nil {
		return err
	}
	g := &guestBench{o: o, out: out, internal: "http://" + internal}
	settings := append(e.url("GUEST"),
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SERVER__INTERNAL_LISTEN="+internal, "HOLDFAST_GUEST__HANDOFF_URL=https://book.example/#{token}",
		"HOLDFAST_BUCKETS__ENABLED=false", "HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__SWEEP_INTERVAL=0s",
		// Log all requests, and refuse none.
		"HOLDFAST_GUEST__BOTS__SAMPLE_HUMANS=1", "HOLDFAST_GUEST__BOTS__CADENCE_WEIGHT=0.2", "HOLDFAST_GUEST__BOTS__SESSIONS_WEIGHT=0.1",
		"HOLDFAST_GUEST__BOTS__HEADERS_WEIGHT=0.1", "HOLDFAST_GUEST__BOTS__HISTORY_WEIGHT=0.05")
	if g.s, err = serve(ctx, o.binary, e, settings); err != nil {
		return err
	}
	if err = g.fill(ctx); err == nil {
		err = g.tables(ctx)
	}
	if err = errors.Join(err, g.s.remove()); err != nil {
		return err
	}
	if e.postgres != nil {
		return nil
	}
	return errors.Join(guestHotSize(ctx, out, "memory", o.size.guests/10), guestHotSize(ctx, out, "Redis", o.size.guests/100))
}

func (g *guestBench) fill(ctx context.Context) error {
	n := g.o.size.guestRows
	token, err := g.command(ctx, "guest", "tokens", "create", "--service", "booking")
	if err != nil {
		return err
	}
	g.token = token
	sessions, err := g.begin(ctx, max(1, n/guestOfSession))
	if err != nil {
		return err
	}
	if err := g.each(ctx, n, g.public(sessions), addWish); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	minted := make([]load.Handoff, n)
	if err := g.each(ctx, n, g.public(sessions), mintInto(minted)); err != nil {
		return fmt.Errorf("mint: %w", err)
	}
	if err := g.each(ctx, n, g.site(), consumeOf(minted)); err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	if g.token, err = g.command(ctx, "guest", "tokens", "create", "--service", "tenants", "--events"); err != nil {
		return err
	}
	events := guestSide{g.internal, func(_ int, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+g.token)
		r.Header.Set("Content-Type", "application/cloudevents+json")
	}}
	err = g.each(ctx, n, events, func(ctx context.Context, c *caller, i int) error {
		_, err := c.send(ctx, http.MethodPost, "/internal/events", fmt.Appendf(nil,
			`{"specversion":"1.0","id":"evt_%026d","source":"/tenants","type":"tenant.reinstated.v1","time":%q,"data":{"tenantId":%q}}`,
			i, time.Now().UTC().Format(time.RFC3339), load.Property(i)), "")
		return err
	})
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	return g.s.until(ctx, func() error {
		waiting, err := g.command(ctx, "guest", "outbox", "list", "--json")
		if err == nil && waiting != "" {
			err = errors.New("events wait")
		}
		return err
	})
}

func (g *guestBench) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, g.s.binary, args...)
	cmd.Env = g.s.env
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (g *guestBench) each(ctx context.Context, n int, to guestSide, step guestStep) error {
	all, hangUp, err := g.dial(ctx, guestCallers, to)
	if err != nil {
		return err
	}
	defer hangUp()
	var next atomic.Int64
	var group errgroup.Group
	for _, c := range all {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				c.number = i
				if err := step(ctx, c, i); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

func (g *guestBench) tables(ctx context.Context) error {
	row := func(table string, rows, data, indexes int64) error {
		if rows == 0 {
			return fmt.Errorf("the table %s is empty", table)
		}
		fmt.Fprintf(g.out, "| `%s` | %s | %s | %d | %d |\n", table, g.s.engine.name, thousands(int(rows)), data/rows, indexes/rows)
		return nil
	}
	if g.s.engine.postgres == nil {
		return withFile(filepath.Join(g.s.data(), "guest.db"), func(c *sqlite.Conn) error { return guestTablesOfSQLite(c, row) })
	}
	return g.s.engine.connect(ctx, func(db *pgx.Conn) error {
		for _, table := range guestTables {
			var rows, data, indexes int64
			if _, err := db.Exec(ctx, `VACUUM (FULL) bff_consumer.`+table); err != nil {
				return err
			}
			err := db.QueryRow(ctx, `SELECT count(*), pg_table_size('bff_consumer.`+table+`'), pg_indexes_size('bff_consumer.`+table+`') FROM bff_consumer.`+table).Scan(&rows, &data, &indexes)
			if err = errors.Join(err, row(table, rows, data, indexes)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Without rowids the primary key is the table itself; otherwise it is an index.
func guestTablesOfSQLite(c *sqlite.Conn, row func(table string, rows, data, indexes int64) error) error {
	if err := sqlitex.ExecuteTransient(c, `VACUUM`, nil); err != nil {
		return err
	}
	for _, table := range guestTables {
		name := "bff_consumer_" + table
		var rows, data, indexes int64
		err := errors.Join(
			sqlitex.ExecuteTransient(c, `SELECT count(*) FROM `+name, &sqlitex.ExecOptions{ResultFunc: func(r *sqlite.Stmt) error { rows = r.ColumnInt64(0); return nil }}),
			sqlitex.ExecuteTransient(c, `SELECT coalesce(sum(pgsize) FILTER (WHERE d.name = s.tbl_name), 0), coalesce(sum(pgsize) FILTER (WHERE d.name <> s.tbl_name), 0)
				FROM sqlite_schema s JOIN dbstat d ON d.name = s.name WHERE s.tbl_name = ?`, &sqlitex.ExecOptions{Args: []any{name}, ResultFunc: func(r *sqlite.Stmt) error {
				data, indexes = r.ColumnInt64(0), r.ColumnInt64(1)
				return nil
			}}))
		if err = errors.Join(err, row(table, rows, data, indexes)); err != nil {
			return err
		}
	}
	return nil
}

func openMemory(context.Context) (hot backend.Hot, used func() (int64, error), end func(), err error) {
	return hotmemory.New(clock.System, 16*guestMemoryGoal), func() (int64, error) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc), nil
	}, func() {}, nil
}

func openRedis(ctx context.Context) (hot backend.Hot, used func() (int64, error), end func(), err error) {
	server, err := testdb.StartRedis()
	if err != nil {
		return nil, nil, nil, err
	}
	db, err := redisdb.Open(ctx, redisdb.Options{URL: server.URL(), Timeout: 10 * time.Second})
	if err != nil {
		server.Remove()
		return nil, nil, nil, err
	}
	return hotredis.New(db, "prod", clock.System), func() (int64, error) {
		info, err := server.Command("INFO", "memory")
		_, rest, _ := strings.Cut(info, "used_memory:")
		number, _, _ := strings.Cut(rest, "\r\n")
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(number, 10, 64)
	}, func() { db.Close(); server.Remove() }, nil
}

func guestHotSize(ctx context.Context, out io.Writer, where string, n int) error {
	open := openMemory
	if where == "Redis" {
		open = openRedis
	}
	hot, used, end, err := open(ctx)
	if errors.Is(err, testdb.ErrNoRedis) {
		return nil
	}
	if err != nil {
		return err
	}
	defer end()
	defer runtime.KeepAlive(hot)
	locale, currency, ids := "de-AT", "EUR", make([]guest.ID, n)
	for i := range ids {
		ids[i] = guest.NewID(guest.SessionPrefix, clock.System())
	}
	measure := func(what string, each int, step func(i int) error) error {
		before, err := used()
		if err != nil {
			return err
		}
		var group errgroup.Group
		group.SetLimit(guestCallers)
		for i := range ids {
			group.Go(func() error { return step(i) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		after, err := used()
		fmt.Fprintf(out, "| %s | %s | %s | %d | – |\n", what, where, thousands(n*each), (after-before)/int64(n*each))
		return err
	}
	const viewed = 5
	return errors.Join(
		measure("session with preferences", 1, func(i int) error {
			_, err := hot.Session(ctx, ids[i], guest.Change{Locale: &locale, Currency: &currency})
			return err
		}),
		measure("recently viewed property", viewed, func(i int) error {
			for p := range viewed {
				value := fmt.Appendf(nil, `{"tenantId":%q,"propertyId":%q,"viewedAt":"2026-11-23T04:00:00.123Z"}`, load.Tenant, load.Property(p))
				if err := hot.Push(ctx, ids[i], guest.RecentlyViewed, guest.Item{Key: load.Property(p), Value: value}); err != nil {
					return err
				}
			}
			return nil
		}))
}
