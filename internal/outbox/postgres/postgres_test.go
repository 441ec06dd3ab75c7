//test:unraced the suite on PostgreSQL takes two minutes under the race detector

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/ident"
	"holdfast/internal/outbox"
	"holdfast/internal/outbox/postgres"
	"holdfast/internal/outbox/storetest"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func open(t testing.TB, url string) *pgdb.DB {
	t.Helper()
	return opened.Postgres(t, pgdb.Options{URL: url}, nil)
}

func statement(sql string) pgdb.Statement { return pgdb.Statement{Name: "test", SQL: sql} }

func run(t testing.TB, db *pgdb.DB, script string) {
	t.Helper()
	for s := range strings.SplitSeq(script, ";\n") {
		if strings.TrimSpace(s) == "" {
			continue
		}
		if _, err := db.Exec(t.Context(), statement(s)); err != nil {
			t.Fatal(err)
		}
	}
}

var errUndo = errors.New("undo")

func create(t testing.TB, url string, table outbox.Table, distribute string) storetest.Harness {
	db := open(t, url)
	o := postgres.New(table)
	run(t, db, o.DDL()+distribute)
	insert := statement(`INSERT INTO ` + table.Name + ` (tenant_id, install_id, seq, topic, key, payload, created_at)
		VALUES ($1::` + table.Type + `, $2::` + table.Type + `, $3::bigint, $4::text, $5::text, $6::text::json, $7::timestamptz)`)
	return storetest.Harness{
		Box: func(t testing.TB) outbox.Box { return o.Open(open(t, url)) },
		Append: func(t testing.TB, undo bool, events ...outbox.Event) {
			t.Helper()
			err := db.Tx(t.Context(), "test", func(tx *pgdb.Tx) error {
				for _, e := range events {
					if _, err := tx.Exec(insert, e.Owner, e.Stream, e.Seq, e.Topic, e.Key, string(e.Payload), e.At); err != nil {
						return err
					}
				}
				if undo {
					return errUndo
				}
				return nil
			})
			if err != nil && !errors.Is(err, errUndo) {
				t.Error(err)
			}
		},
		Lapse: func(t testing.TB) { run(t, db, `UPDATE `+table.Name+`_relay SET held_until = clock_timestamp()`) },
	}
}

func suite(t *testing.T, url, column string, distribute func(table string) string) {
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		table := storetest.Table
		table.Name += "_" + ident.New()
		table.Type = column
		return create(t, url, table, distribute(table.Name))
	})
}

func local(string) string { return "" }

func distributed(table string) string {
	return `SELECT create_distributed_table('` + table + `', 'tenant_id');
SELECT create_distributed_table('` + table + `_refused', 'tenant_id', colocate_with => '` + table + `')`
}

func byTopic(t *testing.T, url string, distribute func(table string) string) {
	storetest.RunByTopic(t, func(t testing.TB) storetest.Harness {
		table := storetest.Table
		table.Name += "_" + ident.New()
		table.ByTopic = true
		h := create(t, url, table, distribute(table.Name))
		h.Topic = func(t testing.TB, topic string) outbox.Box { return postgres.New(table).OpenTopic(open(t, url), topic) }
		h.Box = func(t testing.TB) outbox.Box { return h.Topic(t, storetest.Topic) }
		return h
	})
}

func TestOutboxByTopic(t *testing.T) {
	t.Parallel()
	byTopic(t, testdb.PostgresDatabase(t), local)
}

func TestOutboxByTopicOnCitus(t *testing.T) {
	t.Parallel()
	byTopic(t, testdb.CitusDatabase(t), distributed)
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	suite(t, testdb.PostgresDatabase(t), "uuid", local)
}

func TestOutboxOfTexts(t *testing.T) {
	t.Parallel()
	suite(t, testdb.PostgresDatabase(t), "text", local)
}

func TestOutboxOnCitus(t *testing.T) {
	t.Parallel()
	suite(t, testdb.CitusDatabase(t), "uuid", distributed)
}

func TestWithoutPreparedStatements(t *testing.T) {
	testdb.CheckOnly(t, "it repeats the suite for poolers")
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	for _, mode := range []string{"exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			suite(t, testdb.WithParameter(t, url, "default_query_exec_mode", mode), "uuid", local)
		})
	}
}

// TestClaimThatWaited checks that a claim that waited for another claim's lock does not take over the lease,
// although its own would end later.
func TestClaimThatWaited(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	b := create(t, url, storetest.Table, "").Box(t)
	for _, before := range []time.Duration{0, -time.Hour} { // a free and an expired lease
		if _, err := b.Claim(t.Context(), "first", before, outbox.PartsOf(5)); err != nil {
			t.Fatal(err)
		}
		answers := testdb.NewLocks(t, url).Race(t, `SELECT 1 FROM test_outbox_relay WHERE part = 5 FOR UPDATE`,
			`UPDATE test_outbox_relay SET holder = 'other', held_until = clock_timestamp() + interval '1 minute' WHERE part = 5; COMMIT`,
			func(i int) error {
				held, err := b.Claim(t.Context(), []string{"one", "two"}[i], time.Minute, outbox.PartsOf(3+i, 5))
				if held.Has(5) {
					err = errors.New("the lease was taken from its holder")
				}
				if !held.Has(3 + i) {
					err = errors.Join(err, errors.New("the free lease was not granted"))
				}
				return err
			})
		if err := errors.Join(answers[:]...); err != nil {
			t.Error(err)
		}
		run(t, open(t, url), `UPDATE test_outbox_relay SET held_until = '-infinity'`)
	}
}

// TestClaimsTogether checks that overlapping claims do not deadlock, and that no lease is granted twice.
func TestClaimsTogether(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	b := create(t, url, storetest.Table, "").Box(t)
	var holders [outbox.Partitions]atomic.Int32
	for _, err := range testdb.Concurrently(8, func(i int) error {
		name := fmt.Sprint("relay ", i)
		for n := range 30 {
			held, err := b.Claim(t.Context(), name, time.Minute, outbox.Parts(1<<outbox.Partitions-1)>>(n%3)<<(i%3)&(1<<outbox.Partitions-1))
			if err != nil {
				return err
			}
			for p := range held.All() {
				if holders[p].Add(1) > 1 {
					return fmt.Errorf("partition %d was granted twice", p)
				}
			}
			for p := range held.All() {
				holders[p].Add(-1)
			}
			if err := b.Done(t.Context(), name, held, nil); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	h := create(t, testdb.PostgresDatabase(t), outbox.Table{Name: "test_outbox", Owner: "tenant_id", Stream: "install_id", Type: "text"}, "")
	b := h.Box(t)
	var want []outbox.Event
	for i, owner := range []string{"", "a", "f", "Z", "9", "-", "_", "é", "ж", "漢", "😀", "01J8Z3QK5V", "\\", "'", " "} {
		for j, stream := range []string{"", "0", "z", "/", "ÿ", "\U0010ffff"} {
			e := outbox.Event{Owner: owner, Stream: stream, Seq: int64(i + j + 1), Payload: []byte(`{}`), At: time.UnixMicro(1)}
			h.Append(t, false, e)
			want = append(want, e)
		}
	}
	found := 0
	for p := range outbox.Partitions {
		events, _, err := b.Next(t.Context(), outbox.Query{Parts: outbox.PartsOf(p), Limit: 1000, Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if got := outbox.Partition(e.Owner, e.Stream); got != p {
				t.Errorf("%q, %q: in %d, want %d", e.Owner, e.Stream, p, got)
			}
		}
		found += len(events)
	}
	if found != len(want) {
		t.Errorf("%d of %d events", found, len(want))
	}
}

func TestIdle(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	create(t, url, storetest.Table, "")
	var mu sync.Mutex
	counts := map[string]int{}
	rounds := make(chan struct{}, 100)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	const relays, poll = 4, 250 * time.Millisecond
	for range relays {
		db := opened.Postgres(t, pgdb.Options{URL: url, Observe: func(statement string, _ time.Duration, _ error) {
			mu.Lock()
			defer mu.Unlock()
			counts[statement]++
		}}, nil)
		r := outbox.NewRelay(outbox.Options{
			Box: postgres.New(storetest.Table).Open(db), Sink: storetest.Discard{}, Clock: clock.System, Poll: poll,
			ObserveDead: func(int) { rounds <- struct{}{} },
		})
		running.Go(func() { r.Run(ctx) })
	}
	for range 10 * relays {
		<-rounds
	}
	stop()
	running.Wait()
	// Each relay reads the table once at its start. A slow polling relay may lose its lease to another.
	polls := counts["outbox.claim"]
	if polls < 10*relays {
		t.Errorf("%d polls", polls)
	}
	if n := counts["outbox.next"]; n < 10 || n > 10+2*relays+2 {
		t.Errorf("the table was read %d times in %d polls of %d relays", n, polls, relays)
	}
	if n := counts["outbox.count_dead"]; n > 10+relays+2 {
		t.Errorf("the refused events were counted %d times", n)
	}
	for name, n := range counts {
		switch name {
		case "outbox.claim", "outbox.next", "outbox.count_dead":
		case "outbox.release":
			if n != relays {
				t.Errorf("%d relays have released the lease for polling", n)
			}
		default:
			if n > relays {
				t.Errorf("%s %d times", name, n)
			}
		}
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	storetest.Crash(t, func(t testing.TB) (string, storetest.Harness) {
		url := testdb.PostgresDatabase(t)
		return url, create(t, url, storetest.Table, "")
	}, func(t testing.TB, url string) outbox.Box { return postgres.New(storetest.Table).Open(open(t, url)) })
}

func createKept(t testing.TB, url string) (storetest.Harness, outbox.Retaining) {
	db, name := open(t, url), "test_outbox_"+ident.New()
	run(t, db, postgres.RetainingDDL(name))
	insert := statement(`INSERT INTO ` + name + ` (id, ordering_key, topic, subject, payload, headers, retention_class, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`)
	return storetest.Harness{
		Box: func(t testing.TB) outbox.Box { return storetest.AsBox(postgres.OpenRetaining(open(t, url), name)) },
		Append: func(t testing.TB, undo bool, events ...outbox.Event) {
			t.Helper()
			err := db.Tx(t.Context(), "test", func(tx *pgdb.Tx) error {
				for _, e := range events {
					r := storetest.NewKeptRow(e)
					if _, err := tx.Exec(insert, r.ID, r.OrderingKey, r.Topic, r.Subject, r.Payload, r.Headers, r.Class, r.At); err != nil {
						return err
					}
				}
				if undo {
					return errUndo
				}
				return nil
			})
			if err != nil && !errors.Is(err, errUndo) {
				t.Error(err)
			}
		},
		Lapse: func(t testing.TB) { run(t, db, `UPDATE `+name+`_relay SET held_until = clock_timestamp()`) },
	}, postgres.OpenRetaining(db, name)
}

func TestKept(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	storetest.RunRetaining(t, func(t testing.TB) (storetest.Harness, outbox.Retaining) { return createKept(t, url) })
}

func BenchmarkKept(b *testing.B) {
	url := testdb.DurablePostgres(b).URL()
	db, name := open(b, url), "test_outbox_"+ident.New()
	run(b, db, postgres.RetainingDDL(name))
	fill := func(n int) {
		if _, err := db.Exec(b.Context(), statement(`INSERT INTO `+name+` (id, ordering_key, topic, subject, payload, headers, retention_class)
			SELECT gen_random_uuid()::text, 'gms_' || lpad((n % 1000)::text, 26, '0'), 'wishlist.added.v1', 'wsh_1',
				'{"sessionId":"gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B","propertyId":"00000001-2222-4333-8444-555555555555"}', '{}', 'operational'
			FROM generate_series(1, $1::int) n`), n); err != nil {
			b.Fatal(err)
		}
	}
	storetest.Drain(b, outbox.Options{Box: postgres.OpenRetaining(db, name), Clock: clock.System, Lease: time.Minute}, fill)
}
