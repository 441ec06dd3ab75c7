package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/db/engine"
	"holdfast/internal/engines/postgres"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
	"holdfast/internal/tokenserver"
)

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

func (noStorage) Export(context.Context, *tokenserver.User, string, io.Writer, func(int64)) (int64, error) {
	return 0, errors.New("there is no storage here")
}

func (noStorage) Import(context.Context, io.Reader, ImportOptions, func(ExportedUser) (*tokenserver.User, error)) (Imported, error) {
	return Imported{}, errors.New("there is no storage here")
}

func (noStorage) Quotas() (counted, enforced bool) { return false, false }

func TestNotInSpanner(t *testing.T) {
	t.Parallel()
	s := New(noStorage{}, postgres.Engine().Accounts)
	if _, err := servicetest.Load(s.Service(), "HOLDFAST_TOKENSERVER__DATABASE_URL=spanner://projects/pp/instances/ii/databases/dd"); err != nil {
		t.Fatal(err)
	}
	_, err := s.open(t.Context(), servicetest.Deps(t))
	want := `tokenserver.database_url: the scheme "spanner" is not supported: expected sqlite:PATH or postgres://user@host/database`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestOpensWithoutStorage checks that a server without storage assumes its own engine for its nodes.
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

func TestRefusals(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		tokenserver.ErrNoNode: "no-node",
		fmt.Errorf("%w: %w", tokenserver.ErrAccountsUnavailable, errors.New("timeout")):       "accounts-server-unavailable",
		&tokenserver.Refusal{Reason: tokenserver.BadGeneration, Cause: tokenserver.ErrNoNode}: "invalid-generation",
		errcode.New(errcode.Quota, "full"):                                                    "",
	} {
		if got := refusals.Reason(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}
