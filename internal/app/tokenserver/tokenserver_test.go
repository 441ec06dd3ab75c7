//test:unraced compiling Google's clients for the race detector takes a minute

package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/db/engine"
	"holdfast/internal/fault"
	"holdfast/internal/optional"
	"holdfast/internal/tokenserver"
)

// noStorage is a server without sync storage.
type noStorage struct{}

func (noStorage) IsOpen() bool                { return false }
func (noStorage) Engine() (engine.Kind, bool) { return "", false }
func (noStorage) Purge(context.Context, tokenserver.DueUser) error {
	return errors.New("there is no storage here")
}

func (noStorage) Usage(context.Context, *tokenserver.User) (Usage, error) {
	return Usage{}, errors.New("there is no storage here")
}

func (noStorage) Totals(context.Context, []tokenserver.User) ([]Total, error) {
	return nil, errors.New("there is no storage here")
}

func (noStorage) SetQuota(context.Context, *tokenserver.User, optional.Of[int64]) error {
	return errors.New("there is no storage here")
}

func (noStorage) Export(context.Context, *tokenserver.User, io.Writer, func(int64)) (int64, error) {
	return 0, errors.New("there is no storage here")
}

func (noStorage) Import(context.Context, io.Reader, ImportOptions, func(ExportedUser) (*tokenserver.User, error)) (Imported, error) {
	return Imported{}, errors.New("there is no storage here")
}

func (noStorage) Quotas() (counted, enforced bool) { return false, false }

// Accounts do not support Spanner.
func TestNotInSpanner(t *testing.T) {
	t.Parallel()
	s := New(noStorage{})
	if _, err := servicetest.Load(s.Service(), "HOLDFAST_TOKENSERVER__DATABASE_URL=spanner://projects/pp/instances/ii/databases/dd"); err != nil {
		t.Fatal(err)
	}
	_, err := s.open(t.Context(), servicetest.Deps(t))
	want := `tokenserver.database_url: the scheme "spanner" is not supported: expected sqlite:PATH or postgres://user@host/database`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A server without storage assumes that its nodes use the same engine as itself.
func TestOpensWithoutStorage(t *testing.T) {
	t.Parallel()
	s := New(noStorage{})
	open := servicetest.Open(t, s.Service(), nil)
	if err := errors.Join(open.Settle(t.Context()), open.Ready(t.Context())); err != nil {
		t.Fatal(err)
	}
	nodes, err := s.Opened().ListNodes(t.Context())
	if err != nil || len(nodes) != 1 || s.nodeEngine(engine.SQLite) != engine.SQLite {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	if hint := open.Hint("https://here.example"); !slices.Contains(hint.Lines, "identity.sync.tokenserver.uri = https://here.example/1.0/sync/1.5") {
		t.Errorf("the hint is %+v", hint)
	}
	if c := open.Client("https://here.example"); c.Setting != "identity.sync.tokenserver.uri" || c.Address != "https://here.example/1.0/sync/1.5" {
		t.Errorf("the status page has %+v", c)
	}
}

// A page is not sorted by usage if that reads the counters of too many accounts.
func TestSortsFewAccounts(t *testing.T) {
	t.Parallel()
	s := New(noStorage{})
	open := servicetest.Open(t, s.Service(), nil)
	if err := open.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	account, err := s.opened.ParseAccount("0123456789abcdef0123456789abcdef")
	if err == nil {
		_, err = s.opened.Adopt(t.Context(), account, 1, tokenserver.KeyID{})
	}
	if err != nil {
		t.Fatal(err)
	}
	o, err := parseOrder("created", false)
	if err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]int{0: 0, 1: 1} {
		if rows, err := s.sortedRows(t.Context(), o, place{}, most); err != nil || len(rows) != want {
			t.Errorf("at most %d: %d, %v", most, len(rows), err)
		}
	}
}

// A server without storage says so on the page of an account.
func TestShowsAccountWithoutStorage(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef"
	s := New(noStorage{})
	open := servicetest.Open(t, s.Service(), nil)
	if err := open.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	account, err := s.opened.ParseAccount(id)
	if err == nil {
		_, err = s.opened.Adopt(t.Context(), account, 1, tokenserver.KeyID{})
	}
	if err != nil {
		t.Fatal(err)
	}
	view, err := s.showAccount(t.Context(), &service.PageRequest{Values: url.Values{"account": {id}}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(view.Blocks, func(b service.Block) bool {
		f, ok := b.(*service.Facts)
		return ok && slices.ContainsFunc(f.Rows, func(f service.Fact) bool { return f.Text == "unknown: syncstorage is disabled on this server" })
	}) {
		t.Errorf("the page is %+v", view.Blocks)
	}
}

// A list of refused sign-ins that may be longer than the page says so.
func TestShowsLatestRefused(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 1, consoleRows - 1: 1, consoleRows: 2} {
		if view := refusedView(make([]tokenserver.Refused, n)); len(view.Blocks) != want || len(view.Blocks[0].(*service.Table).Rows) != n {
			t.Errorf("with %d accounts the page is %+v", n, view.Blocks)
		}
	}
}

// Refused requests have a reason.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		tokenserver.ErrNoNode: "no-node",
		fmt.Errorf("%w: %w", tokenserver.ErrAccountsUnavailable, errors.New("timeout")):       "accounts-server-unavailable",
		&tokenserver.Refusal{Reason: tokenserver.BadGeneration, Cause: tokenserver.ErrNoNode}: "invalid-generation",
		fault.New(fault.Quota, "full"): "",
	} {
		if got := refusal(err); got != want || want != "" && !slices.Contains(reasons(), want) {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}
