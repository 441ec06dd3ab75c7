package sqlite_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/sqlite"
	"holdfast/internal/guest/storetest"
	"holdfast/internal/suite"
	"holdfast/internal/testdb/opened"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, nil) })
}

func harness(t testing.TB, fault func(string) error) storetest.Harness {
	t.Helper()
	db := opened.SQLite(t, sqlitedb.Options{Fault: fault}, sqlite.Migrations)
	return storetest.Harness{
		Store: sqlite.New(db, clock.System, nil), Faulty: harness, AddBotScore: addBotScore(db), AddAnswer: addAnswer(db), AddHandoff: addHandoff(db),
		Events: events(db), Find: find(db), Schema: schema(db),
	}
}

func events(db *sqlitedb.DB) func(suite.TB, guest.ID) []guest.Event {
	return func(t suite.TB, session guest.ID) (all []guest.Event) {
		t.Helper()
		err := db.Read(t.Context(), "events", func(c *zombiezen.Conn) (err error) {
			all, err = sqlitedb.QueryAll(c, `SELECT id, topic, subject, retention_class, payload, created_at, headers ->> 'sampledrate' FROM bff_consumer_outbox
				WHERE ordering_key = ? ORDER BY position`, func(r *zombiezen.Stmt) guest.Event {
				return guest.Event{
					ID: guest.ID(r.ColumnText(0)), Type: r.ColumnText(1), Subject: r.ColumnText(2), Retention: r.ColumnText(3),
					Payload: []byte(r.ColumnText(4)), At: time.UnixMicro(r.ColumnInt64(5)).UTC(), SampleRate: r.ColumnInt(6),
				}
			}, string(session))
			return err
		})
		suite.Must(t, "events", err)
		return all
	}
}

func addAnswer(db *sqlitedb.DB) func(suite.TB, guest.Mutation, guest.StoredAnswer) {
	return func(t suite.TB, m guest.Mutation, a guest.StoredAnswer) {
		t.Helper()
		now := clock.System()
		suite.Must(t, "add an answer", db.Write(t.Context(), "test", func(c *zombiezen.Conn) error {
			return sqlitedb.Exec(c, `INSERT INTO bff_consumer_idempotency_keys (composite_key, guest_session_id, route, request_digest, response_status,
				content_type, location, response_body, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, m.CompositeKey(), string(m.Session),
				m.Route, m.Digest[:], a.Version, "", "", append([]byte{}, a.Body...), now.UnixMicro(), now.Add(time.Hour).UnixMicro())
		}))
	}
}

func addHandoff(db *sqlitedb.DB) func(suite.TB, handoffs.Handoff) error {
	return func(t suite.TB, h handoffs.Handoff) error {
		t.Helper()
		return db.Write(t.Context(), "test", func(c *zombiezen.Conn) error {
			stay := []any{h.CheckIn, h.CheckOut, h.Adults, h.Children, h.Rooms}
			if h.CheckIn == "" {
				stay = make([]any, 5)
			}
			return sqlitedb.Exec(c, `INSERT INTO bff_consumer_handoff_replay_log (id, guest_session_id, tenant_id, property_id, check_in, check_out,
				adults, children, rooms, currency, locale, hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at, item_id, payload)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''), nullif(?, ''))`, string(h.ID), string(h.Session), h.Tenant,
				guest.ItemKey(h.Item), stay[0], stay[1], stay[2], stay[3], stay[4], h.Currency, h.Locale, h.Key, h.Fingerprint, h.IP,
				h.Minted.UnixMicro(), h.Expires.UnixMicro(), guest.ItemText(h.Item), string(h.Payload))
		})
	}
}

func addBotScore(db *sqlitedb.DB) func(suite.TB, guest.ID, time.Time) {
	return func(t suite.TB, session guest.ID, at time.Time) {
		t.Helper()
		suite.Must(t, "add a score", db.Write(t.Context(), "test", func(c *zombiezen.Conn) error {
			return sqlitedb.Exec(c, `INSERT INTO bff_consumer_bot_score_log (id, guest_session_id, fingerprint_hash, ip_hash, user_agent_hash,
				score, verdict, signals, action_taken, evaluated_at) VALUES (?, ?, ?, ?, ?, 0.6, 'suspect', '{}', 'none', ?)`,
				string(guest.NewID("", at)), string(session), []byte{1}, []byte{2}, []byte{3}, at.UnixMicro())
		}))
	}
}

func schema(db *sqlitedb.DB) func(suite.TB) []string {
	return func(t suite.TB) (all []string) {
		t.Helper()
		text := func(r *zombiezen.Stmt) string { return strings.ReplaceAll(r.ColumnText(0), "bff_consumer_", "") }
		suite.Must(t, "schema", db.Read(t.Context(), "test", func(c *zombiezen.Conn) error {
			for _, query := range []string{
				`SELECT printf('migration %04d %s', version, name) FROM schema_migrations`,
				`SELECT 'column ' || m.name || '.' || p.name || ' ' || lower(p.type) || iif(p."notnull" OR p.pk, ' not null', '')
					FROM sqlite_schema m, pragma_table_xinfo(m.name) p WHERE m.type = 'table' AND m.name LIKE 'bff_consumer_%'`,
				`SELECT 'index ' || tbl_name || ' ' || name || iif(sql LIKE '% UNIQUE %', ' unique', '') || iif(sql LIKE '%WHERE%', ' partial', '')
					FROM sqlite_schema WHERE type = 'index' AND name LIKE 'bff_consumer_%'`,
			} {
				lines, err := sqlitedb.QueryAll(c, query, text)
				if err != nil {
					return err
				}
				all = append(all, lines...)
			}
			return nil
		}))
		return all
	}
}

func find(db *sqlitedb.DB) func(suite.TB, string) map[string]int {
	return func(t suite.TB, text string) map[string]int {
		t.Helper()
		found := map[string]int{}
		suite.Must(t, "find", db.Read(t.Context(), "test", func(c *zombiezen.Conn) error {
			name := func(r *zombiezen.Stmt) string { return r.ColumnText(0) }
			tables, err := sqlitedb.QueryAll(c, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'bff_consumer_%'`, name)
			for _, table := range tables {
				all := "SELECT * FROM " + table //nolint:unqueryvet // every column may have the text
				err = errors.Join(err, sqlitedb.ForEach(c, all, func(r *zombiezen.Stmt) error {
					for column := range r.ColumnCount() {
						if strings.Contains(r.ColumnText(column), text) {
							found[strings.TrimPrefix(table, "bff_consumer_")]++
							break
						}
					}
					return nil
				}))
			}
			return err
		}))
		return found
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	db := opened.SQLite(t, sqlitedb.Options{}, nil)
	opened.WantPing(t, db, sqlite.Migrations, sqlite.New(db, clock.System, nil).Ping)
}
