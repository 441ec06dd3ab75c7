package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	ext "holdfast/internal/extstorage"
)

// InstallState implements extstorage.Installs.
func (s *Store) InstallState(ctx context.Context, o ext.Owner, at ext.Moment) (in ext.Install, revoked []string, err error) {
	if err := o.Check(); err != nil {
		return ext.Install{}, nil, err
	}
	var row installRow
	var kind, token string
	err = s.db.ForEach(ctx, sqlInstallState, []any{string(o.Tenant), string(o.Install), now(at)},
		func() { in, revoked = ext.Install{}, nil },
		func() (err error) {
			switch kind {
			case "token":
				revoked = append(revoked, token)
			case "tenant":
				t, err := row.install()
				in.Tenant = ext.TenantState{Deletion: t.Deletion, TokensAfter: t.TokensAfter}
				return err
			default:
				tenant := in.Tenant
				in, err = row.install()
				in.Tenant = tenant
			}
			return err
		}, append(row.columns(), &kind, &token)...)
	if err != nil {
		return ext.Install{}, nil, err
	}
	slices.Sort(revoked)
	return in, revoked, nil
}

// RevokedTokens implements extstorage.Tokens.
func (s *Store) RevokedTokens(ctx context.Context, o ext.Owner, at ext.Moment) (all []ext.RevokedToken, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	var id string
	var expires, revoked pgtype.Timestamptz
	err = s.db.ForEach(ctx, sqlRevokedTokens, []any{string(o.Tenant), string(o.Install), now(at)},
		func() { all = nil },
		func() error {
			all = append(all, ext.RevokedToken{ID: id, ExpiresAt: momentOf(expires), RevokedAt: momentOf(revoked)})
			return nil
		}, &id, &expires, &revoked)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// RevokeToken implements extstorage.Tokens.
func (s *Store) RevokeToken(ctx context.Context, o ext.Owner, t ext.RevokedToken) error {
	if err := o.Check(); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, sqlRevokeToken, string(o.Tenant), string(o.Install), t.ID, now(t.ExpiresAt), now(t.RevokedAt))
	return refusedClosed(err)
}
