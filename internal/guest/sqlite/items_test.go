package sqlite_test

import (
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/clock"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/sqlite"
	"holdfast/internal/testdb/opened"
)

// TestItemsKeepHandoffs checks that the migration that recreates the table of handoffs keeps its rows and their
// states.
func TestItemsKeepHandoffs(t *testing.T) {
	t.Parallel()
	db := opened.SQLite(t, sqlitedb.Options{}, nil)
	set, err := sqlite.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Migrate(t.Context(), migrate.Set{Service: set.Service, Migrations: set.Migrations[:13]}); err != nil {
		t.Fatal(err)
	}
	const row = `(id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms, currency, locale, source_campaign,
			hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at, consumed, consumed_at, consumed_by, consume_key, erased_at)
		VALUES ('bhd_01ARZ3NDEKTSV4RRFFQ69G5FA1', 'gms_01ARZ3NDEKTSV4RRFFQ69G5FAV', '11111111-2222-4333-8444-555555555555', '22222222-2222-4333-8444-555555555555',
			'2024-02-29', '2024-03-02', 2, 1, 1, 'EUR', 'de', '{"a":1}', 'k1', x'01', x'02', 1700000000000001, 1700000000000009, 1, 1700000000000003, 'site', 'key', NULL)`
	err = db.Write(t.Context(), "data", func(c *zombiezen.Conn) error {
		return sqlitex.ExecuteScript(c, "INSERT INTO bff_consumer_handoff_replay_log "+row, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Migrate(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	all, err := sqlite.New(db, clock.System, nil).Handoffs(t.Context(), "gms_01ARZ3NDEKTSV4RRFFQ69G5FAV", nil, 10)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	h := all[0]
	if h.ID != guest.ID("bhd_01ARZ3NDEKTSV4RRFFQ69G5FA1") || h.Item != "22222222-2222-4333-8444-555555555555" || h.CheckIn != "2024-02-29" || h.CheckOut != "2024-03-02" ||
		h.Adults != 2 || h.Children != 1 || h.Rooms != 1 || string(h.Campaign) != `{"a":1}` || h.Key != "k1" || h.Fingerprint[0] != 1 || h.IP[0] != 2 || h.Payload != nil ||
		!h.Minted.Equal(time.UnixMicro(1700000000000001)) || !h.Expires.Equal(time.UnixMicro(1700000000000009)) || !h.Consumed.Equal(time.UnixMicro(1700000000000003)) ||
		h.ConsumedBy != "site" || h.ConsumeKey != "key" {
		t.Errorf("%+v", h)
	}
}
