package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

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

// run executes a script, statement by statement.
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

// create makes an outbox; distribute is what follows on Citus.
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

// suite runs the contract in one database, with a table for each test.
func suite(t *testing.T, url, column string, distribute func(table string) string) {
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		table := storetest.Table
		table.Name += "_" + ident.New()
		table.Type = column
		return create(t, url, table, distribute(table.Name))
	})
}

func local(string) string { return "" }

func TestOutbox(t *testing.T) {
	t.Parallel()
	suite(t, testdb.PostgresDatabase(t), "uuid", local)
}

// TestOutboxOfTexts: owners may be texts, which are in the order of their bytes.
func TestOutboxOfTexts(t *testing.T) {
	t.Parallel()
	suite(t, testdb.PostgresDatabase(t), "text", local)
}

func TestOutboxOnCitus(t *testing.T) {
	t.Parallel()
	suite(t, testdb.CitusDatabase(t), "uuid", func(table string) string {
		return `SELECT create_distributed_table('` + table + `', 'tenant_id')`
	})
}

// TestWithoutPreparedStatements: in the modes that a pooler may need.
func TestWithoutPreparedStatements(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	for _, mode := range []string{"exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			suite(t, testdb.WithParameter(t, url, "default_query_exec_mode", mode), "uuid", local)
		})
	}
}

// TestClaimThatWaited: who waits while another claims does not take the lease
// from him, though his is the later claim and so ends later.
func TestClaimThatWaited(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	b := create(t, url, storetest.Table, "").Box(t)
	if _, err := b.Claim(t.Context(), "first", time.Minute); err != nil {
		t.Fatal(err)
	}
	answers := testdb.NewLocks(t, url).Race(t, `SELECT 1 FROM test_outbox_relay FOR UPDATE`,
		`UPDATE test_outbox_relay SET holder = 'other', held_until = clock_timestamp() + interval '1 minute'; COMMIT`,
		func(i int) error {
			mine, err := b.Claim(t.Context(), []string{"one", "two"}[i], time.Minute)
			if mine {
				err = errors.New("it was taken from him who held it")
			}
			return err
		})
	if err := errors.Join(answers[:]...); err != nil {
		t.Error(err)
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	storetest.Crash(t, func(t testing.TB) (string, storetest.Harness) {
		url := testdb.PostgresDatabase(t)
		return url, create(t, url, storetest.Table, "")
	}, func(t testing.TB, url string) outbox.Box { return postgres.New(storetest.Table).Open(open(t, url)) })
}
