package app_test

import (
	"testing"

	"holdfast/internal/db/rows"
	"holdfast/internal/testdb"
)

// TestCopyCarriesUnfinishedWork checks that work which a service began, such as telling browsers about a restore, goes
// on in the target of a copy.
func TestCopyCarriesUnfinishedWork(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]func(testing.TB) string{"SQLite": sqliteURL, "PostgreSQL": testdb.PostgresDatabase} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCopy(t, "syncstorage", sqliteURL(t), target(t))
			source, target := c.Source.Rows(nil), c.Target.Rows(nil)
			work := rows.WorkOf("syncstorage")
			if err := source.Update(t.Context(), func(u rows.Update) error { return u.SetState(work, "half done") }); err != nil {
				t.Fatal(err)
			}
			if err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := target.View(t.Context(), func(v rows.View) error {
				text, err := v.State(work)
				if text != "half done" {
					t.Errorf("the target's work is %q", text)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
