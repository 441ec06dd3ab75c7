package app_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/app/service"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

func (t *toy) operations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{Access: operate.ForViewers, Path: "toys", Doc: "List the toys", Group: "Manage toys", Title: "Toys", Empty: "There are no toys."}, t.listToys),
		operate.NewChange(operate.About{Path: "toys/break", Doc: "Break a toy", Ask: "It cannot be fixed."}, t.breakToy),
		operate.NewJob(operate.About{Path: "toys/break-all", Doc: "Break all toys", Danger: true, Confirm: "break all"}, t.breakAll),
	}
}

type toyOutput struct {
	Body string `json:"body" title:"Toy" subject:"toy"`
}

func (t *toy) listToys(ctx context.Context, _ operate.None) (all []toyOutput, err error) {
	err = t.db.Read(ctx, "list", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, "SELECT body FROM toys ORDER BY body", func(s *sqlite.Stmt) toyOutput { return toyOutput{s.ColumnText(0)} })
		return err
	})
	return all, err
}

type toyInput struct {
	Toy string `subject:"toy" doc:"body of the toy"`
}

type broken struct {
	Toys int `json:"toys"`
}

func (b broken) Notice() string { return service.Count(int64(b.Toys), "toy") + " broken" }

func (t *toy) breakToy(ctx context.Context, in toyInput) (b broken, err error) {
	if b.Toys, err = t.remove(ctx, "DELETE FROM toys WHERE body = ?", in.Toy); err == nil && b.Toys == 0 {
		err = errcode.New(errcode.NotFound, "there is no such toy")
	}
	return b, err
}

func (t *toy) breakAll(ctx context.Context, _ operate.None, _ operate.Progress) (b broken, err error) {
	b.Toys, err = t.remove(ctx, "DELETE FROM toys")
	return b, err
}

func (t *toy) remove(ctx context.Context, sql string, args ...any) (n int, err error) {
	err = t.db.Write(ctx, "break", func(c *sqlite.Conn) error {
		err := sqlitedb.Exec(c, sql, args...)
		n = c.Changes()
		return err
	})
	return n, err
}

const toyToken = "an admin token of at least 32 bytes"

func toyOperations(t *testing.T, toys, admin string, run func(args ...string) (int, string)) {
	t.Helper()
	for _, body := range []string{"a", "b", "c", "d"} {
		if status, text := do(t, http.MethodPost, toys+"/toys/1", body); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	command := func(status int, part string, args ...string) {
		t.Helper()
		if got, out := run(append([]string{"toy", "toys"}, args...)...); got != status || !strings.Contains(out, part) {
			t.Errorf("holdfast toy toys %v: %d %s", args, got, out)
		}
	}
	command(0, "TOY\na\nb\nc\nd\nsmall\n", "list")
	command(0, `{"body":"a"}`, "list", "--json")
	command(0, "1 toy broken\n", "break", "a")
	command(1, "there is no such toy", "break", "a")
	command(2, "TOY is required", "break")

	route := func(status int, want, method, path string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, admin+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+toyToken)
		if got, text := answerTo(t, r); got != status || !strings.Contains(text, want) {
			t.Errorf("%s %s: %d %s", method, path, got, text)
		}
	}
	route(http.StatusOK, `{"toys":[{"body":"b"},{"body":"c"},{"body":"d"},{"body":"small"}]}`, http.MethodGet, "/toy/toys")
	route(http.StatusOK, `{"toys":1}`, http.MethodPost, "/toy/toys/b/break")
	route(http.StatusNotFound, "there is no such toy", http.MethodPost, "/toy/toys/b/break")

	b := signIn(t, admin, toyToken)
	b.open("toy/toys")
	b.shows("Toys", "c", "d", "It cannot be fixed.")
	b.submit("Break toy c")
	b.shows("1 toy broken.")
	b.submit("Break all", "confirm", "break all")
	b.shows("2 toys broken.", "There are no toys.")
	route(http.StatusOK, `{"toys":0}`, http.MethodPost, "/toy/toys/break-all")
	command(0, "0 toys broken\n", "break-all")
}
