package postgres

import (
	"testing"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestPlans checks that a list reads its own rows only.
func TestPlans(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	testdb.Script(t, url, `
		CREATE TEMP TABLE n AS SELECT n, lpad(n::text, 26, '0') AS id, lpad((n % 300)::text, 26, '0') AS session FROM generate_series(1, 9000) n;
		INSERT INTO bff_consumer.wishlist_anonymous (id, guest_session_id, tenant_id, property_id, source, added_at)
			SELECT 'wsh_' || id, 'gms_' || session, gen_random_uuid() AS tenant, gen_random_uuid(), 'list', timestamptz '2024-01-01' + n * interval '1 s' FROM n;
		INSERT INTO bff_consumer.handoff_replay_log (id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms, currency, locale,
				hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at)
			SELECT 'bhd_' || id, 'gms_' || session, gen_random_uuid() AS tenant, gen_random_uuid(), '2024-01-01', '2024-01-02', 2, 0, 1, 'EUR', 'de', 'k', '', '',
				timestamptz '2024-01-01' + n * interval '1 s', timestamptz '2024-01-01 00:10' + n * interval '1 s' FROM n;
		INSERT INTO bff_consumer.session_seen SELECT 'gms_' || id, '2024-01-01' FROM n;
		ANALYZE bff_consumer.session_seen;
		ANALYZE bff_consumer.wishlist_anonymous, bff_consumer.handoff_replay_log`)
	e := testdb.Explain(t, url)
	const session, wish, handoff = "gms_00000000000000000000000007", "wsh_00000000000000000000000307", "bhd_00000000000000000000000307"
	at := time.Date(2024, 1, 1, 0, 5, 7, 0, time.UTC)
	for _, c := range []struct {
		statement pgdb.Statement
		args      []any
		index     string
	}{
		{sqlWishes, []any{session, 100}, "ix_wishlist_session"},
		{sqlWishesAfter, []any{session, at, wish, 100}, "ix_wishlist_session"},
		{sqlFindSessions, []any{"gms_0000000000000000000000007", "gms_0000000000000000000000007~", 10}, "session_seen_pkey"},
		{sqlHandoffs, []any{session, 100}, "ix_handoff_session"},
		{sqlHandoffsAfter, []any{session, at, handoff, 100}, "ix_handoff_session"},
	} {
		t.Run(c.statement.Name, func(t *testing.T) { e.Uses(t, []string{c.index}, c.statement.SQL, c.args...) })
	}
}
