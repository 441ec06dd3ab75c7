package pgdb_test

import (
	"testing"

	"holdfast/internal/db/pgdb"
)

func TestWhere(t *testing.T) {
	t.Setenv("PGHOST", "pg.example")
	t.Setenv("PGPORT", "6543")
	t.Setenv("PGPASSWORD", "secret")
	for url, want := range map[string]string{
		"postgres://u:secret@db.example:5432/sync?sslmode=require":   "postgres://db.example:5432/sync",
		"postgres://u:secret@db.example/sync":                        "postgres://db.example:6543/sync",
		"postgres://u:secret@db.example":                             "postgres://db.example:6543/u",
		"postgres://u@[2001:db8::1]:5432/sync?password=secret":       "postgres://[2001:db8::1]:5432/sync",
		"postgres://u:secret@a:1,b:2/sync":                           "postgres://a:1,b:2/sync",
		"postgres:///sync?host=/run/postgresql&password=secret":      "postgres:///sync (socket /run/postgresql/.s.PGSQL.6543)",
		"host=/run/postgresql port=5433 dbname=sync password=secret": "postgres:///sync (socket /run/postgresql/.s.PGSQL.5433)",
		"host=db user=u dbname=sync password=secret":                 "postgres://db:6543/sync",
		"postgres://u:secret@/sync":                                  "postgres://pg.example:6543/sync",
	} {
		db, err := pgdb.Open(t.Context(), pgdb.Options{URL: url})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := db.Where(); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
		db.Close()
	}
}
