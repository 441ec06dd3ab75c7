package postgres

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/outbox"
	"holdfast/internal/outbox/storetest"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func filled(t testing.TB, url string, rows int) (*box, *pgdb.DB, func(n int)) {
	t.Helper()
	db := opened.Postgres(t, pgdb.Options{URL: url}, nil)
	o := New(storetest.Table)
	seq := 0
	fill := func(n int) {
		t.Helper()
		if _, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: `
			INSERT INTO test_outbox
			SELECT ('00000000-0000-4000-8000-' || lpad((n % 100)::text, 12, '0'))::uuid, ('00000000-0000-4000-8000-' || lpad((n % 1000)::text, 12, '0'))::uuid,
				n, 'put', 'settings/theme', '{"caller":"session","revision":17,"schemaVersion":3}', now()
			FROM generate_series($1::int, $2::int) n`}, seq+1, seq+n); err != nil {
			t.Fatal(err)
		}
		seq += n
	}
	for s := range strings.SplitSeq(o.DDL(), ";\n") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		if _, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: s}); err != nil {
			t.Fatal(err)
		}
	}
	if rows > 0 {
		fill(rows)
	}
	return &box{sql: o, db: db}, db, fill
}

func next(t testing.TB, b *box, limit int) []outbox.Event {
	t.Helper()
	events, _, err := b.Next(t.Context(), outbox.Query{Parts: 1<<outbox.Partitions - 1, Limit: limit, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// TestAsOnCitus checks that the statements for Citus read and delete the same events as the other statements.
func TestAsOnCitus(t *testing.T) {
	t.Parallel()
	b, _, _ := filled(t, testdb.PostgresDatabase(t), 5000)
	citus := true
	b.citus.Store(&citus)
	first := next(t, b, 2000)
	if err := b.Done(t.Context(), "tester", 0, first); len(first) != 2000 || err != nil {
		t.Fatal(len(first), err)
	}
	citus = false
	rest := next(t, b, 100_000)
	if len(rest) != 3000 {
		t.Fatal(len(rest))
	}
	citus = true
	owners := []string{rest[0].Owner, rest[2999].Owner}
	of, more, err := b.Next(t.Context(), outbox.Query{Parts: 1<<outbox.Partitions - 1, Limit: 1000, Now: time.Now(), Owners: owners})
	if err != nil || more != 0 {
		t.Fatal(more, err)
	}
	citus = false
	gone := map[outbox.ID]bool{}
	for _, e := range first {
		gone[e.ID()] = true
	}
	ofOwners := 0
	for _, e := range rest {
		if gone[e.ID()] {
			t.Fatalf("%v is still there", e)
		}
		if slices.Contains(owners, e.Owner) {
			ofOwners++
		}
	}
	if len(of) != ofOwners || ofOwners == 0 {
		t.Errorf("of two owners %d events were read, want %d", len(of), ofOwners)
	}
	if err := b.Done(t.Context(), "tester", 0, rest); err != nil {
		t.Fatal(err)
	}
	if left := next(t, b, 1); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

var seqScan = regexp.MustCompile(`Seq Scan on test_outbox( |$)`)

// TestPlans checks, with and without statistics, that a relay with a long backlog does not read the whole table for
// every batch.
func TestPlans(t *testing.T) {
	t.Parallel()
	b, db, _ := filled(t, testdb.PostgresDatabase(t), 50_000)
	events := next(t, b, 500)
	var owners, streams []string
	var numbers []int64
	var parts []int16
	for _, e := range events {
		owners, streams, numbers, parts = append(owners, e.Owner), append(streams, e.Stream), append(numbers, e.Seq), append(parts, partition(e))
	}
	for _, prepare := range []string{`SELECT 1`, `ANALYZE test_outbox`} {
		if _, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: prepare}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			statement pgdb.Statement
			args      []any
		}{
			{b.sql.next, []any{array(1<<outbox.Partitions - 1), 50, time.Now()}},
			{b.sql.next, []any{array(1 << 3), 500, time.Now()}},
			{b.sql.done, []any{owners, streams, numbers, parts, "me", array(3)}},
			{b.sql.doneStream, []any{owners[0], streams[0], numbers[:1], parts[0]}},
			{b.sql.nextOfOwner, []any{array(3), 50, time.Now(), owners[0]}},
		} {
			text := strings.Join(opened.Lines(t, db, `EXPLAIN `+c.statement.SQL, c.args...), "\n")
			if seqScan.MatchString(text) || !strings.Contains(text, "test_outbox_pkey") {
				t.Errorf("after %s, %s:\n%s", prepare, c.statement.Name, text)
			}
		}
	}
}

// TestPlansOfKept checks that listing reads neither published events nor more than a page of a long backlog.
func TestPlansOfKept(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	db := opened.Postgres(t, pgdb.Options{URL: url}, nil)
	testdb.Script(t, url, RetainingDDL("test_kept")+`
		INSERT INTO test_kept (id, topic, payload, headers, retention_class, published_at, dead_at, ordering_key, subject)
			SELECT 'evt_' || n, 'x', '{}', '{}', 'operational', CASE WHEN n % 3 = 0 THEN now() END, CASE WHEN n % 3 = 1 THEN now() END, 'key-' || n % 1000, 's'
			FROM generate_series(1, 60000) n;
		ANALYZE test_kept`)
	k := OpenRetaining(db, "test_kept").(*retaining)
	all, err := k.ListWaiting(t.Context(), 30_000, 100)
	if err != nil || len(all) != 100 || !slices.IsSortedFunc(all, func(a, b outbox.WaitingEvent) int { return int(a.Position - b.Position) }) || all[0].Position != 30_002 || all[99].Position != 30_299 {
		t.Errorf("%d events, %v", len(all), err)
	}
	e := testdb.Explain(t, url)
	for _, c := range []struct {
		statement pgdb.Statement
		args      []any
		index     string
	}{
		{k.waiting, []any{int64(100), 100}, "test_kept_unpublished"},
		{k.listDead, []any{int64(100), 100}, "test_kept_dead"},
		{k.countDead, nil, "test_kept_dead"},
		{k.find, []any{"evt_4"}, "test_kept_pkey"},
		{k.published, []any{"evt_1", 100}, "test_kept_pkey"},
		{k.republish, []any{[]string{"evt_3"}}, "test_kept_pkey"},
	} {
		for range 7 { // generic plans from the sixth run on
			for _, p := range e.Run(t, c.statement.SQL, c.args...) {
				p.Plan.Walk(func(n *testdb.Node) {
					if n.Table == "test_kept" && n.Type != "ModifyTable" && n.Index != c.index || n.Type == "Bitmap Heap Scan" && c.statement.Name != k.countDead.Name {
						t.Errorf("%s: %s of %s with index %q", c.statement.Name, n.Type, n.Table, n.Index)
					}
				})
			}
			if t.Failed() {
				break
			}
		}
	}
}

func BenchmarkOutbox(b *testing.B) {
	box, _, fill := filled(b, testdb.DurablePostgres(b).URL(), 0)
	for _, citus := range []bool{false, true} {
		box.citus.Store(&citus)
		name := map[bool]string{false: "plain", true: "by stream"}[citus]
		b.Run(name, func(b *testing.B) {
			storetest.Drain(b, outbox.Options{Box: box, Clock: clock.System, Lease: time.Minute}, fill)
		})
	}
}

func TestManyDead(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	b, _, _ := filled(t, url, 20_000)
	testdb.Script(t, url, `
		INSERT INTO test_outbox_refused (`+storetest.Table.Owner+`, `+storetest.Table.Stream+`, seq, topic, key, payload, created_at, attempts, reason, refused_at)
			SELECT ('00000000-0000-4000-8000-' || lpad((n % 100)::text, 12, '0'))::uuid, ('00000000-0000-4000-8000-' || lpad((n % 1000)::text, 12, '0'))::uuid,
				n, 'put', 'k', '{}', now(), 9, 'r', now() FROM generate_series(1, 50000) n;
		ANALYZE test_outbox, test_outbox_refused`)
	e := testdb.Explain(t, url)
	parts := make([]int16, outbox.Partitions)
	for i := range parts {
		parts[i] = int16(i)
	}
	for _, s := range []pgdb.Statement{b.sql.next, b.sql.nextOnCitus} {
		for range 7 { // generic plans from the sixth run on
			for _, p := range e.Run(t, s.SQL, parts, 32, time.Now()) {
				p.Plan.Walk(func(n *testdb.Node) {
					if n.Table == "test_outbox_refused" && n.Index != "test_outbox_refused_next_idx" {
						t.Errorf("%s: %s of %s with index %q", s.Name, n.Type, n.Table, n.Index)
					}
				})
			}
		}
	}
}
