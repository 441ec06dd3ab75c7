package app_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/app/tokenserver"
	"holdfast/internal/copying"
	"holdfast/internal/db/rows"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	syncsqlite "holdfast/internal/syncstorage/sqlite"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestCopiesExclude checks that concurrent copies with the same source or target are refused. A killed copy is
// resumed, and a copy that was suspended meanwhile stops writing.
func TestCopiesExclude(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]func(testing.TB) string{
		"sqlite": sqliteURL, "postgres": testdb.PostgresDatabase, "citus": testdb.CitusDatabase, "spanner": spannerURL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, reached, goOn := blockedCopy(t, sqliteURL(t), to(t))
			second := again(first)
			third := newCopy(t, first.Service, "sqlite:"+first.Source.Target.Path, sqliteURL(t))
			ended := make(chan error, 1)
			block := first.BeforeStep
			run := func() {
				first.BeforeStep = onlyFirst(block)
				ended <- first.Run(t.Context())
			}
			go run()
			<-reached
			for what, other := range map[string]*copying.Copy{"the same target": second, "another target": third} {
				if err := other.Run(t.Context()); !errcode.Is(err, errcode.Conflict) || !strings.Contains(err.Error(), "another copy or import (process ") {
					t.Errorf("a second copy to %s: %v", what, err)
				}
			}
			goOn <- errCrash
			if err := <-ended; !errors.Is(err, errCrash) {
				t.Fatal(err)
			}

			// Another process resumed the copy, and was killed.
			go run()
			<-reached
			claimBy(t, first, "killed")
			goOn <- nil
			if err := <-ended; !errcode.Is(err, errcode.Conflict) || !strings.Contains(err.Error(), "was suspended") {
				t.Errorf("a copy that was suspended: %v", err)
			}
			if err := second.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantEqual(t, second)
			if err := third.Run(t.Context()); !errcode.Is(err, errcode.Conflict) || !strings.Contains(err.Error(), "holdfast copy syncstorage --reopen") {
				t.Errorf("a copy from a source that is read-only: %v", err)
			}
			if _, err := third.DryRun(t.Context()); !errcode.Is(err, errcode.Conflict) {
				t.Errorf("a dry run of a copy from a source that is read-only: %v", err)
			}
			if err := second.Run(t.Context()); err != nil {
				t.Errorf("the complete copy, after one to another target: %v", err)
			}
		})
	}
}

func blockedCopy(t *testing.T, from, to string) (c *copying.Copy, reached chan struct{}, goOn chan error) {
	t.Helper()
	users := sqliteURL(t)
	tokens := openOne(t, "tokenserver", users)
	execute(t, users, `INSERT INTO users (uid, service, email, generation, client_state, created_at, nodeid) VALUES (1, 1, 'a@example.com', 1, 'aaaa', 1, 1)`)
	c = newCopy(t, "syncstorage", from, to)
	c.Owners = tokenserver.Owners(tokens.Database.Rows(nil))
	store := syncsqlite.New(opened.SQLite(t, sqlitedb.Options{Path: c.Source.Target.Path}, nil))
	putTab(t, store)
	reached, goOn = make(chan struct{}), make(chan error)
	c.BeforeStep = func(point string) error {
		if point != "span" {
			return nil
		}
		reached <- struct{}{}
		return <-goOn
	}
	return c, reached, goOn
}

func putTab(t *testing.T, store ss.Store) {
	t.Helper()
	if _, err := store.Put(t.Context(), ss.Owner{UID: 1}, ss.Write{Collection: "tabs", Now: 1_700_000_000_000, MaxNames: 9}, ss.Update{ID: "a", Payload: ss.Some([]byte("x"))}); err != nil {
		t.Fatal(err)
	}
}

// onlyFirst blocks only at the first span: a copy reads ahead, so another span may begin before the first is refused.
func onlyFirst(block func(string) error) func(string) error {
	var once sync.Once
	return func(point string) (err error) {
		if point == "span" {
			once.Do(func() { err = block(point) })
		}
		return err
	}
}

func again(c *copying.Copy) *copying.Copy {
	return &copying.Copy{Service: c.Service, Groups: c.Groups, Source: c.Source, Target: c.Target, Owners: c.Owners}
}

func claimBy(t *testing.T, c *copying.Copy, id string) {
	t.Helper()
	for _, db := range []rows.Database{c.Source.Rows(c.Owners), c.Target.Rows(c.Owners)} {
		if err := db.Update(t.Context(), func(u rows.Update) error {
			state, err := u.State(c.Service)
			before, _, ok := strings.Cut(state, `,"claim"`)
			if err != nil || !ok {
				return errors.Join(err, errors.New("no claim: "+state))
			}
			return u.SetState(c.Service, before+`,"claim":{"id":"`+id+`","by":"a test","beat":"1"}}`)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReopenEndsACopy checks that a copy is not complete if its log ends before the last pass, because writes may be
// missing.
func TestReopenEndsACopy(t *testing.T) {
	t.Parallel()
	c, reached, goOn := blockedCopy(t, sqliteURL(t), sqliteURL(t))
	block := c.BeforeStep
	c.BeforeStep = func(point string) error {
		if point == "close" {
			return block("span")
		}
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	<-reached
	source := c.Source.Rows(nil)
	if err := errors.Join(source.Reopen(t.Context(), c.Service, c.Groups), source.Unlog(t.Context(), c.Service, c.Groups)); err != nil {
		t.Fatal(err)
	}
	putTab(t, syncsqlite.New(opened.SQLite(t, sqlitedb.Options{Path: c.Source.Target.Path}, nil)))
	goOn <- nil
	if err := <-ended; !errors.Is(err, rows.ErrLapsed) {
		t.Errorf("after --reopen: %v", err)
	}
	c.BeforeStep = nil
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, c)
}
