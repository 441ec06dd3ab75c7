package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"

	workload "holdfast/internal/workload/guest"
)

func diskTable(_ *options, out io.Writer) *table {
	fmt.Fprintf(out, "Each record is written once through the server. Then the write-ahead log is written to the tables (checkpoint). "+
		"The table counts tables, indexes and TOAST.\n\n")
	return newTable(out, "record|engine|records>|bytes per record>|in the change feed>")
}

type diskWork struct {
	name    string
	of      service
	share   int // write only every n-th record, so that there are fewer large records
	batch   int
	content func(i int) string
}

const (
	bucketsFile = "buckets.db"
	extFeed     = "ext_storage_changes"
)

// place returns the database file of the work, and its tables on PostgreSQL.
func (w *diskWork) place() (file string, tables []string) {
	switch w.of.(type) {
	case *syncLoad:
		return syncFile, []string{"bsos", "user_collections"}
	case extLoad:
		return extFile, []string{"ext_storage_records", "ext_storage_usage", "ext_storage_namespaces", extFeed}
	}
	return bucketsFile, []string{"manta_bucket_object", "manta_bucket_usage"}
}

// The values are random and incompressible, like ciphertext. Bodies above 16 KiB are on a storage node.
func diskWorks(o *options) []diskWork {
	sync, ext, buckets := newSync(o.size), extLoad{}, newBuckets(o.size)
	const largest = 64 << 10
	text := func(bytes int) func(int) string {
		return func(i int) string { return randomText(i, bytes) }
	}
	value := func(bytes int) func(int) string {
		return func(i int) string {
			const head, tail = `{"name":"a setting","enabled":true,"note":"`, `"}`
			return head + randomText(i, bytes-len(head)-len(tail)) + tail
		}
	}
	return []diskWork{
		{of: sync, name: "Sync, 200 B", share: 1, batch: 100, content: text(200)},
		{of: sync, name: "Sync, 500 B", share: 1, batch: 100, content: text(500)},
		{of: sync, name: "Sync, 1,000 B", share: 1, batch: 100, content: text(1000)},
		{of: sync, name: "Sync, 10,000 B", share: 10, batch: 100, content: text(10_000)},
		{of: ext, name: "extension, 200 B", share: 1, batch: 20, content: value(200)},
		{of: ext, name: "extension, 1,000 B", share: 1, batch: 20, content: value(1000)},
		{of: ext, name: "extension, 64 KiB text", share: 40, batch: 1, content: func(i int) string { return `"` + randomText(i, largest-2) + `"` }},
		{of: ext, name: "extension, 64 KiB digits", share: 40, batch: 1, content: func(i int) string { return randomDigits(i, largest) }},
		{of: buckets, name: "1,000 B object", share: 1, batch: 1, content: text(1000)},
		{of: buckets, name: "10,000 B object", share: 10, batch: 1, content: text(10_000)},
		{of: buckets, name: "object on a storage node", share: 10, batch: 1, content: text(17_000)},
	}
}

func randomText(seed, bytes int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	text := make([]byte, bytes)
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(text)
}

// randomDigits returns an array; jsonb stores 12 bytes per digit.
func randomDigits(seed, bytes int) string {
	r := rand.New(rand.NewPCG(uint64(seed), 2))
	text := []byte("[0")
	for len(text)+3 <= bytes {
		text = append(text, ',', byte('0'+r.IntN(10)))
	}
	return string(append(text, ']'))
}

func measureDisk(ctx context.Context, o *options, e *engine, t *table) error {
	for _, w := range diskWorks(o) {
		err := onServer(ctx, o.binary, e, nil, func(s *server) error {
			file, tables := w.place()
			if e.postgres != nil {
				if err := execPostgres(ctx, e.postgres.URL(), `TRUNCATE `+strings.Join(tables, ", ")+` CASCADE`); err != nil {
					return err
				}
			}
			before, _, err := s.onDisk(ctx, file, tables)
			if err != nil {
				return err
			}
			records := max(w.batch, o.size.diskRecords/w.share)
			if err := w.write(ctx, s, records); err != nil {
				return err
			}
			after, changes, err := s.onDisk(ctx, file, tables)
			feed := any(none)
			if changes > 0 {
				feed = changes / int64(records)
			}
			t.row(w.name, e.name, records, (after-before)/int64(records), feed)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

const diskOwner = 4000 // records per owner

func (w *diskWork) write(ctx context.Context, s *server, records int) error {
	for first := 0; first < records; first += diskOwner {
		owners, err := s.newOwners(w.of, 1)
		if err != nil {
			return err
		}
		err = with(ctx, owners[0], func(c *caller) (err error) {
			if _, buckets := w.of.(*s3Load); buckets && first == 0 {
				_, err = c.do(ctx, http.MethodPut, s3Objects, nil)
			}
			for i := first; i < min(first+diskOwner, records) && err == nil; i += w.batch {
				err = w.request(ctx, c, i)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if _, ext := w.of.(extLoad); ext {
		return extPublished(ctx, s)
	}
	return nil
}

func (w *diskWork) request(ctx context.Context, c *caller, i int) error {
	records := func(format string) string {
		var all []string
		for n := range w.batch {
			all = append(all, fmt.Sprintf(format, id(i+n), w.content(i+n)))
		}
		return strings.Join(all, ",")
	}
	switch w.of.(type) {
	case *s3Load:
		return done(c.do(ctx, http.MethodPut, s3Objects+"/"+id(i), []byte(w.content(i))))
	case *syncLoad:
		_, err := c.send(ctx, http.MethodPost, "/storage/"+postCollection, []byte("["+records(`{"id":%q,"payload":%q}`)+"]"))
		return err
	}
	answer, err := c.send(ctx, http.MethodPost, extBulkPath, []byte(`{"items":[`+records(`{"key":%q,"value":%s}`)+`]}`))
	if err == nil && bytes.Count(answer, []byte(`"revision":`)) != w.batch {
		err = fmt.Errorf("not all records were written: %.200s", answer)
	}
	return err
}

// onDisk returns a SQLite file's disk usage, or the usage of tables with their indexes and TOAST, and how much of it is
// in the change feed.
func (s *server) onDisk(ctx context.Context, file string, tables []string) (all, fed int64, err error) {
	if err := s.settle(ctx, file); err != nil {
		return 0, 0, err
	}
	if s.engine.postgres == nil {
		info, err := os.Stat(s.file(file))
		if err != nil {
			return 0, 0, err
		}
		return info.Size(), 0, nil
	}
	err = onPostgres(ctx, s.engine.postgres.URL(), func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(t::regclass)), 0)::bigint,
			coalesce(sum(pg_total_relation_size(t::regclass)) FILTER (WHERE t = $2), 0)::bigint FROM unnest($1::text[]) AS t`, tables, extFeed).Scan(&all, &fed)
	})
	return all, fed, err
}

func guestSizeTable(_ *options, out io.Writer) *table {
	fmt.Fprintf(out, "Rows are written through the server; then the tables are rewritten without gaps (VACUUM). In operation they take about a third more.\n\n")
	return newTable(out, "data|engine|number>|bytes each>|indexes, bytes each>")
}

var guestTables = []string{"wishlist_anonymous", "session_seen", "handoff_replay_log", "idempotency_keys", "bot_score_log", "outbox", "inbox"}

const guestOfSession = 10 // wishes and handoffs

func measureGuestSize(ctx context.Context, o *options, e *engine, t *table) error {
	g := &guestBench{o: o}
	return g.onServer(ctx, e, []string{
		"HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__SWEEP_INTERVAL=0s",
		// Log all requests, and refuse none.
		"HOLDFAST_GUEST__BOTS__SAMPLE_HUMANS=1", "HOLDFAST_GUEST__BOTS__CADENCE_WEIGHT=0.2", "HOLDFAST_GUEST__BOTS__SESSIONS_WEIGHT=0.1",
		"HOLDFAST_GUEST__BOTS__HEADERS_WEIGHT=0.1", "HOLDFAST_GUEST__BOTS__HISTORY_WEIGHT=0.05",
	}, func() error {
		if err := g.fill(ctx); err != nil {
			return err
		}
		return g.tables(ctx, t)
	})
}

func (g *guestBench) fill(ctx context.Context) error {
	n := g.o.size.guestRows
	sessions, err := g.begin(ctx, max(1, n/guestOfSession))
	if err != nil {
		return err
	}
	token, err := g.s.command(ctx, "guest", "tokens", "create", "--service", "tenants", "--events")
	if err != nil {
		return err
	}
	events := guestSide{g.internal, func(i int, r *http.Request) {
		g.bearer(token).sign(i, r)
		r.Header.Set("Content-Type", "application/cloudevents+json")
	}}
	minted := make([]workload.Handoff, n)
	for _, work := range []struct {
		name string
		to   guestSide
		step guestStep
	}{
		{"add", g.public(sessions), addWish},
		{"mint", g.public(sessions), mintInto(minted)},
		{"consume", g.bearer(g.token), consumeOf(minted)},
		{"events", events, func(ctx context.Context, c *caller, i int) error {
			_, err := c.send(ctx, http.MethodPost, "/internal/events", fmt.Appendf(nil,
				`{"specversion":"1.0","id":"evt_%026d","source":"/tenants","type":"tenant.reinstated.v1","time":%q,"data":{"tenantId":%q}}`,
				i, time.Now().UTC().Format(time.RFC3339), workload.Property(i)))
			return err
		}},
	} {
		err := g.withCallers(ctx, work.to, func(all []*caller) error {
			return share(ctx, n, len(all), func(ctx context.Context, c, i int) error {
				all[c].number = i
				return work.step(ctx, all[c], i)
			})
		})
		if err != nil {
			return fmt.Errorf("%s: %w", work.name, err)
		}
	}
	return g.s.until(ctx, func() error {
		waiting, err := g.s.command(ctx, "guest", "outbox", "list", "--json")
		if err == nil && waiting != "" {
			err = errors.New("events wait")
		}
		return err
	})
}

// tables counts the primary key of a table without rowids as the table itself; otherwise it is an index.
func (g *guestBench) tables(ctx context.Context, t *table) error {
	measure := func(table string, read func(dest ...any) error) error {
		var rows, data, indexes int64
		if err := read(&rows, &data, &indexes); err != nil {
			return err
		}
		if rows == 0 {
			return fmt.Errorf("the table %s is empty", table)
		}
		t.row("`"+table+"`", g.s.engine.name, rows, data/rows, indexes/rows)
		return nil
	}
	if g.s.engine.postgres != nil {
		return onPostgres(ctx, g.s.engine.postgres.URL(), func(db *pgx.Conn) error {
			for _, table := range guestTables {
				name := "bff_consumer." + table
				if _, err := db.Exec(ctx, `VACUUM (FULL) `+name); err != nil {
					return err
				}
				row := db.QueryRow(ctx, `SELECT count(*), pg_table_size('`+name+`'), pg_indexes_size('`+name+`') FROM `+name)
				if err := measure(table, row.Scan); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return withFile(g.s.file(guestFile), func(c *sqlite.Conn) error {
		if err := query(c, `VACUUM`, nil); err != nil {
			return err
		}
		for _, table := range guestTables {
			name := "bff_consumer_" + table
			err := measure(table, func(dest ...any) error {
				return query(c, `SELECT (SELECT count(*) FROM `+name+`), coalesce(sum(pgsize) FILTER (WHERE d.name = s.tbl_name), 0), coalesce(sum(pgsize) FILTER (WHERE d.name <> s.tbl_name), 0)
					FROM sqlite_schema s JOIN dbstat d ON d.name = s.name WHERE s.tbl_name = ?`, func(s *sqlite.Stmt) {
					for i, d := range dest {
						*d.(*int64) = s.ColumnInt64(i)
					}
				}, name)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
