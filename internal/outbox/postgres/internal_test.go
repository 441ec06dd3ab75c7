package postgres

import (
	"fmt"
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

// TestDoneByStream: what Citus is asked to do leaves what one statement leaves.
func TestDoneByStream(t *testing.T) {
	t.Parallel()
	b, _, _ := filled(t, testdb.PostgresDatabase(t), 5000)
	citus := true
	b.citus.Store(&citus)
	first, err := b.Next(t.Context(), 2000)
	if err != nil || len(first) != 2000 {
		t.Fatal(len(first), err)
	}
	if err := b.Done(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	citus = false
	rest, err := b.Next(t.Context(), 5000)
	if err != nil || len(rest) != 3000 {
		t.Fatal(len(rest), err)
	}
	gone := map[string]bool{}
	for _, e := range first {
		gone[fmt.Sprint(e.Owner, e.Stream, e.Seq)] = true
	}
	for _, e := range rest {
		if gone[fmt.Sprint(e.Owner, e.Stream, e.Seq)] {
			t.Fatalf("%v is still there", e)
		}
	}
	if err := b.Done(t.Context(), rest); err != nil {
		t.Fatal(err)
	}
	if left, err := b.Next(t.Context(), 1); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestPlans: a relay that is far behind does not read all that waits for every
// batch, be there statistics of the table or not.
func TestPlans(t *testing.T) {
	t.Parallel()
	b, db, _ := filled(t, testdb.PostgresDatabase(t), 50_000)
	events, err := b.Next(t.Context(), 500)
	if err != nil {
		t.Fatal(err)
	}
	var owners, streams []string
	var numbers []int64
	for _, e := range events {
		owners, streams, numbers = append(owners, e.Owner), append(streams, e.Stream), append(numbers, e.Seq)
	}
	for _, prepare := range []string{`SELECT 1`, `ANALYZE test_outbox`} {
		if _, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: prepare}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			statement pgdb.Statement
			args      []any
		}{
			{b.sql.next, []any{500}},
			{b.sql.done, []any{owners, streams, numbers}},
			{b.sql.doneStream, []any{owners[0], streams[0], numbers[:1]}},
		} {
			var plan []string
			var line string
			err := db.Each(t.Context(), pgdb.Statement{Name: "explain", SQL: `EXPLAIN ` + c.statement.SQL}, c.args, func() { plan = nil }, func() error {
				plan = append(plan, line)
				return nil
			}, &line)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(plan, "\n")
			if strings.Contains(text, "Seq Scan") || !strings.Contains(text, "test_outbox_pkey") {
				t.Errorf("after %s, %s:\n%s", prepare, c.statement.Name, text)
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
			r := outbox.NewRelay(outbox.Options{Box: box, Sink: storetest.Discard{}, Clock: clock.System, Lease: time.Minute})
			storetest.Drain(b, r, fill)
		})
	}
}
