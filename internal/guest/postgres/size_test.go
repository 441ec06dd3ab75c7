package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestIndexSizes checks the sizes in docs/guest-operate.md. As in production, IDs ascend, a session adds five
// entries while other sessions add theirs, and 23 events are published per second.
func TestIndexSizes(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	testdb.Script(t, url, `
		INSERT INTO bff_consumer.outbox (id, topic, ordering_key, subject, payload, headers, retention_class, published_at)
			SELECT 'evt_01' || lpad(n::text, 24, '0'), 'test.v1', 'gms_1', 'a', '{}', '{}', 'operational', timestamptz '2026-01-01' + (n / 23) * interval '1 s'
			FROM generate_series(1, 100000) n;
		INSERT INTO bff_consumer.wishlist_anonymous (id, guest_session_id, tenant_id, property_id, source)
			SELECT 'wsh_01' || lpad(n::text, 24, '0'), 'gms_01' || lpad((n / 5 + n * 7919::bigint % 50)::text, 24, '0'), md5('t' || n % 4999 % 40)::uuid, md5('p' || n % 4999)::uuid, 'list'
			FROM generate_series(1, 100000) n ON CONFLICT DO NOTHING`)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for table, most := range map[string]int{"outbox": 65, "wishlist_anonymous": 190} { // bytes per row in all indexes
		var size, rows int
		if err := conn.QueryRow(t.Context(), `SELECT pg_indexes_size('bff_consumer.`+table+`'), count(*) FROM bff_consumer.`+table).Scan(&size, &rows); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes for each of %d rows", table, size/rows, rows)
		if rows < 90_000 || size/rows > most {
			t.Errorf("the indexes of %s have %d bytes for each of %d rows, want at most %d", table, size/rows, rows, most)
		}
	}
}
