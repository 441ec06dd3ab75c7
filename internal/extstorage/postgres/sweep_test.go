package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestSweepWaitsForExpiries checks which sweeps wait until their commit reaches the disk: clients may have seen the change
// number of an expiry, so a crash must not give it to another change.
func TestSweepWaitsForExpiries(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	s, o := New(opened.Postgres(t, pgdb.Options{URL: url}, Migrations), Options{}), ext.Owner{Tenant: filledTenant, Install: filledInstall}
	_, err := s.Apply(t.Context(), o, ext.Write{Now: filledAt, Quota: ext.DefaultQuota(), Ops: []ext.Op{
		{Namespace: "b", Key: "k", Value: "1", Metadata: canonjson.EmptyObject, ExpiresAt: filledAt + 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, c := range []struct {
		name  string
		part  part
		swept int
		waits string
	}{
		{"an expiry", part{expired: 10}, 1, "on"},
		{"no expiry any more", part{expired: 10}, 0, "off"},
		{"an old change", part{changes: []int64{1}}, 1, "off"},
	} {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `SET LOCAL synchronous_commit = on`); err != nil {
				return err
			}
			var n int
			if err := tx.QueryRow(t.Context(), sqlSweep.SQL, sqlSweep.Args(sweeping{o, c.part, filledAt + 2, filledAt + 2})...).Scan(&n); err != nil || n != c.swept {
				t.Errorf("%s: swept %d, %v", c.name, n, err)
			}
			var waits string
			if err := tx.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&waits); err != nil || waits != c.waits {
				t.Errorf("%s: synchronous_commit is %s, %v, want %s", c.name, waits, err, c.waits)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
