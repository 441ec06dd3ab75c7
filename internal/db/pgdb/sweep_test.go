package pgdb_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func TestBeginRound(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, pgdb.ServerMigrations)
	set := func(by string) {
		t.Helper()
		_, err := db.Exec(t.Context(), pgdb.Statement{SQL: `UPDATE sweep_rounds SET begun_at = clock_timestamp() + $1::text::interval WHERE job = 'a'`}, by)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		why   string
		set   string // when the latest round of a began, "abort", or ""
		job   string
		every time.Duration
		want  bool
	}{
		{"the first round", "", "a", time.Hour, true},
		{"another process", "", "a", time.Hour, false},
		{"another job", "", "b", time.Hour, true},
		{"too early", "-59min", "a", time.Hour, false},
		{"a shorter interval", "-59min", "a", 50 * time.Minute, true},
		{"an interval later", "-61min", "a", time.Hour, true},
		{"once only", "", "a", time.Hour, false},
		{"the clock was set back", "1min", "a", time.Hour, true},
		{"and the new time is recorded", "", "a", time.Hour, false},
		{"the round failed", "abort", "a", time.Hour, true},
		{"of this job only", "abort", "b", time.Hour, false},
	} {
		switch tc.set {
		case "":
		case "abort":
			if err := db.AbortRound(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		default:
			set(tc.set)
		}
		if got, err := db.BeginRound(t.Context(), tc.job, tc.every); err != nil || got != tc.want {
			t.Errorf("%s: %v, %v", tc.why, got, err)
		}
	}
}

func TestBeginRoundAtOnce(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t), MaxConns: 8}, pgdb.ServerMigrations)
	for round := range 20 {
		var begun atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				ok, err := db.BeginRound(t.Context(), "a", time.Hour)
				if err != nil {
					t.Error(err)
				}
				if ok {
					begun.Add(1)
				}
			})
		}
		wg.Wait()
		if n := begun.Load(); n != 1 {
			t.Errorf("round %d: %d processes began it", round, n)
		}
		if _, err := db.Exec(t.Context(), pgdb.Statement{SQL: `UPDATE sweep_rounds SET begun_at = begun_at - interval '2 hours'`}); err != nil {
			t.Fatal(err)
		}
	}
}
