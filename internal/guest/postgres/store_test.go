package postgres_test

import (
	"errors"
	"testing"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/postgres"
	"holdfast/internal/guest/retention"
	"holdfast/internal/guest/storetest"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func TestMain(m *testing.M) { suite.Main(m, "25") }

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, testdb.PostgresDatabase(t), nil) })
}

// TestStoreBehindPgBouncer runs the suite through a pooler that gives each transaction another connection.
func TestStoreBehindPgBouncer(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		through := testdb.PgBouncer(t, testdb.PostgresDatabase(t), 4)
		h := harness(t, testdb.WithParameter(t, through, "default_query_exec_mode", "exec"), nil)
		h.Soak = suite.Soak{Why: "the other groups behave the same through a pooler", But: []string{"Bots", "Wishes"}}
		return h
	})
}

func harness(t testing.TB, url string, fault func(string) error) storetest.Harness {
	t.Helper()
	db := opened.Postgres(t, pgdb.Options{URL: url, MaxConns: 10}, postgres.Migrations)
	store := postgres.New(db, nil)
	if fault != nil { // but not in the migrations
		store = postgres.New(opened.Postgres(t, pgdb.Options{URL: url, Fault: fault}, nil), nil)
	}
	return storetest.Harness{
		Store: store, AddBotScore: addBotScore(db), AddAnswer: addAnswer(db), AddHandoff: addHandoff(db), SetIncarnation: setIncarnation(db),
		Find: find(db), Schema: schema(db),
		Again: func(t testing.TB) backend.Store {
			return postgres.New(opened.Postgres(t, pgdb.Options{URL: url, MaxConns: 10}, nil), nil)
		},
		Faulty: func(t testing.TB, fault func(string) error) storetest.Harness { return harness(t, url, fault) },
		Events: func(t suite.TB, session guest.ID) (all []guest.Event) {
			t.Helper()
			var e guest.Event
			var id, payload string
			err := db.ForEach(t.Context(), pgdb.Statement{Name: "test", SQL: `
				SELECT id, topic, subject, retention_class, payload::text, created_at, coalesce((headers ->> 'sampledrate')::int, 0) FROM bff_consumer.outbox WHERE ordering_key = $1 ORDER BY position`},
				[]any{string(session)}, func() { all = nil }, func() error {
					e.ID, e.Payload, e.At = guest.ID(id), []byte(payload), e.At.UTC()
					all = append(all, e)
					return nil
				}, &id, &e.Type, &e.Subject, &e.Retention, &payload, &e.At, &e.SampleRate)
			suite.Must(t, "events", err)
			return all
		},
	}
}

func addBotScore(db *pgdb.DB) func(suite.TB, guest.ID, time.Time) {
	return func(t suite.TB, session guest.ID, at time.Time) {
		t.Helper()
		_, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: `INSERT INTO bff_consumer.bot_score_log (id, guest_session_id,
			fingerprint_hash, ip_hash, user_agent_hash, score, verdict, signals, action_taken, evaluated_at)
			VALUES ($1, $2, '0', '0', '0', 0.6, 'suspect', '{}', 'none', $3)`}, string(guest.NewID("", at)), string(session), at)
		suite.Must(t, "add a score", err)
	}
}

func addAnswer(db *pgdb.DB) func(suite.TB, guest.Mutation, guest.StoredAnswer) {
	return func(t suite.TB, m guest.Mutation, a guest.StoredAnswer) {
		t.Helper()
		_, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: `INSERT INTO bff_consumer.idempotency_keys (composite_key, guest_session_id, route,
			request_digest, response_status, content_type, location, response_body, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now() + interval '1 hour')`},
			m.CompositeKey(), string(m.Session), m.Route, m.Digest[:], a.Version, "", "", append([]byte{}, a.Body...))
		suite.Must(t, "add an answer", err)
	}
}

func addHandoff(db *pgdb.DB) func(suite.TB, handoffs.Handoff) error {
	return func(t suite.TB, h handoffs.Handoff) error {
		t.Helper()
		stay := []any{h.CheckIn, h.CheckOut, h.Adults, h.Children, h.Rooms}
		if h.CheckIn == "" {
			stay = make([]any, 5)
		}
		_, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: `INSERT INTO bff_consumer.handoff_replay_log (id, guest_session_id, tenant_id, property_id,
			check_in, check_out, adults, children, rooms, currency, locale, hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at, item_id, payload)
			VALUES ($1, $2, $3, $4, $5::text::date, $6::text::date, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, nullif($17, ''), nullif($18, '')::json)`},
			string(h.ID), string(h.Session), h.Tenant, guest.ItemKey(h.Item), stay[0], stay[1], stay[2], stay[3], stay[4], h.Currency, h.Locale, h.Key,
			h.Fingerprint, h.IP, h.Minted, h.Expires, guest.ItemText(h.Item), string(h.Payload))
		return err
	}
}

func setIncarnation(db *pgdb.DB) func(suite.TB, string) {
	return func(t suite.TB, incarnation string) {
		t.Helper()
		_, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: `UPDATE bff_consumer.handoff_epoch SET incarnation = $1`}, incarnation)
		suite.Must(t, "set the incarnation", err)
	}
}

func schema(db *pgdb.DB) func(suite.TB) []string {
	return func(t suite.TB) (all []string) {
		t.Helper()
		_, err := db.QueryRow(t.Context(), pgdb.Statement{Name: "test", SQL: `
			SELECT array_agg(line) FROM (
				SELECT 'migration ' || to_char(version, 'FM0000') || ' ' || name FROM schema_migrations WHERE service = 'guest'
				UNION ALL
				SELECT 'column ' || c.relname || '.' || a.attname || ' ' || CASE
						WHEN a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'bool'::regtype, 'timestamptz'::regtype) THEN 'integer'
						WHEN a.atttypid = 'bytea'::regtype THEN 'blob' WHEN a.atttypid = 'float4'::regtype THEN 'real'
						WHEN a.atttypid IN ('text'::regtype, 'bpchar'::regtype, 'uuid'::regtype, 'date'::regtype, 'json'::regtype, 'jsonb'::regtype) THEN 'text'
						ELSE format_type(a.atttypid, -1) END || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
					FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
					WHERE c.relnamespace = 'bff_consumer'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
				UNION ALL
				SELECT 'index ' || tablename || ' ' || indexname || CASE WHEN indexdef LIKE '% UNIQUE %' THEN ' unique' ELSE '' END
						|| CASE WHEN indexdef LIKE '% WHERE %' THEN ' partial' ELSE '' END
					FROM pg_indexes WHERE schemaname = 'bff_consumer' AND indexname LIKE 'ix%') l(line)`}, nil, &all)
		suite.Must(t, "schema", err)
		return all
	}
}

func find(db *pgdb.DB) func(suite.TB, string) map[string]int {
	return func(t suite.TB, text string) map[string]int {
		t.Helper()
		var tables []string
		_, err := db.QueryRow(t.Context(), pgdb.Statement{Name: "test", SQL: `
			SELECT array_agg(tablename::text) FROM pg_tables WHERE schemaname = 'bff_consumer'`}, nil, &tables)
		suite.Must(t, "tables", err)
		found := map[string]int{}
		for _, table := range tables {
			n := 0
			_, err := db.QueryRow(t.Context(), pgdb.Statement{Name: "test", SQL: `
				SELECT count(*) FROM bff_consumer.` + table + ` r WHERE strpos(r::text, $1) > 0`}, []any{text}, &n)
			suite.Must(t, "find", err)
			if n > 0 {
				found[table] = n
			}
		}
		return found
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, nil)
	opened.WantPing(t, db, postgres.Migrations, postgres.New(db, nil).Ping)
}

// takeTurn locks a session as a mutation does.
var takeTurn = pgdb.Statement{Name: "test", SQL: `SELECT at FROM bff_consumer.begin_mutation($1, '', '', '60000')`}

func TestWaitIsBounded(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	h := harness(t, url, nil)
	session := guest.ID("gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B")
	record := func(key string) error {
		_, err := h.Store.Record(t.Context(), telemetry.Record{Mutation: guest.Mutation{Session: session, Key: key}})
		return err
	}
	err := opened.Postgres(t, pgdb.Options{URL: url}, nil).Tx(t.Context(), "test", func(other *pgdb.Tx) error {
		if _, err := other.Exec(takeTurn, string(session)); err != nil {
			return err
		}
		if err := record("a"); !errors.Is(err, guest.ErrInFlight) {
			t.Errorf("beside another mutation: %v", err)
		}
		return nil
	})
	suite.Must(t, "the other mutation", err)
	suite.Must(t, "after it", record("a"))
}

// TestOneLeader checks that only one process deletes a job's rows, while others may run other jobs.
func TestOneLeader(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	h := harness(t, url, nil)
	now := time.Now()
	h.AddBotScore(t, guest.NewID(guest.SessionPrefix, now), now)
	drop := func(what string, job retention.Job, want int) {
		t.Helper()
		n, err := h.Store.Drop(t.Context(), job, now.Add(time.Hour), 10)
		suite.Must(t, what, err)
		suite.Equal(t, what, n, want)
	}
	jobs := retention.New(retention.Options{Store: h.Store, Clock: func() time.Time { return now.Add(24 * time.Hour * 365) }})
	db := opened.Postgres(t, pgdb.Options{URL: url}, nil)
	lead := pgdb.Statement{Name: "test", SQL: `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 4715333))`}
	err := db.Tx(t.Context(), "test", func(leader *pgdb.Tx) error {
		leads := false
		_, err := leader.QueryRow(lead, []any{string(retention.JobBotScores)}, &leads)
		suite.Equal(t, "the first leads", leads, true)
		n, err2 := jobs.Run(t.Context(), retention.JobBotScores, func(int) {})
		suite.Equal(t, "while another process leads", n, 0)
		if !errors.Is(err2, retention.ErrJobRuns) {
			t.Errorf("while another process leads: %v", err2)
		}
		_, err2 = jobs.Step(t.Context(), retention.JobBotScores, now, 10)
		suite.Must(t, "a step while another process leads", err2)
		drop("another job", retention.JobHandoffs, 0)
		if err == nil {
			_, err = leader.QueryRow(lead, []any{string(retention.JobHandoffs)}, &leads)
		}
		suite.Equal(t, "the other job has no leader", leads, true)
		return err
	})
	suite.Must(t, "lead", err)
	drop("afterwards", retention.JobBotScores, 1)
}

// TestAppendEventsDoesNotWait checks that events of a session with a mutation in progress are returned for later.
func TestAppendEventsDoesNotWait(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	h := harness(t, url, nil)
	now := time.Now()
	busy, idle := guest.NewID(guest.SessionPrefix, now), guest.NewID(guest.SessionPrefix, now)
	var all []telemetry.SessionEvent
	for _, session := range []guest.ID{busy, idle, busy} {
		all = append(all, telemetry.SessionEvent{Session: session, Event: guest.Event{
			ID: guest.NewID(guest.EventPrefix, now), Type: "test.v1", Subject: "a", Retention: guest.Operational, Payload: []byte(`{}`), At: now,
		}})
	}
	var rest []telemetry.SessionEvent
	err := opened.Postgres(t, pgdb.Options{URL: url}, nil).Tx(t.Context(), "test", func(other *pgdb.Tx) error {
		_, err := other.Exec(takeTurn, string(busy))
		if err == nil {
			rest, err = h.Store.AppendEvents(t.Context(), all)
		}
		return err
	})
	suite.Must(t, "while one is busy", err)
	suite.Equal(t, "rest", rest, []telemetry.SessionEvent{all[0], all[2]})
	rest, err = h.Store.AppendEvents(t.Context(), rest)
	suite.Must(t, "AppendEvents", err)
	suite.Equal(t, "rest", len(rest), 0)
	suite.Equal(t, "events", []int{len(h.Events(t, busy)), len(h.Events(t, idle))}, []int{2, 1})
}
