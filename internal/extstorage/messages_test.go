package extstorage_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/postgres"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestMessages counts the messages between Citus nodes: a put takes one, and another if the install's cached state is
// older than a second.
func TestMessages(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, postgres.Migrations)
	watch := testdb.WatchCitus(t, url)
	store := postgres.New(opened.Postgres(t, pgdb.Options{URL: watch.URL}, nil), postgres.Options{})
	m := newService(t, func(o *ext.Options) {
		o.Store, o.Registry, o.Installs, o.Tokens, o.Deletions = store, store, store, store, store
	})
	put := func(what string, want int) {
		t.Helper()
		watch.Sent()
		m.do(t, task(ext.PutTask, "k", `1`))
		sent := watch.Sent()
		called := slices.IndexFunc(sent, func(s string) bool { return strings.HasPrefix(s, "issuing SELECT public.ext_apply_v") })
		if len(sent) != want || called != want-1 {
			t.Errorf("%s: the messages are\n%s", what, strings.Join(sent, "\n"))
		}
	}
	put("the first put to a namespace", 2)
	put("a put at once", 1)
	m.clock.Advance(2 * time.Second)
	put("a put after a pause", 2)
}
