package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
)

// InstallState implements extstorage.Installs.
func (s *Store) InstallState(ctx context.Context, o ext.Owner, now ext.Moment) (in ext.Install, revoked []string, err error) {
	if err := o.Check(); err != nil {
		return ext.Install{}, nil, err
	}
	err = s.db.Read(ctx, "ext.install_state", func(c *sqlite.Conn) error {
		var tenant ext.Install
		whole := ext.Services(o.Tenant)
		if o != whole {
			err := sqlitedb.ForEach(c, sqlInstall, func(r *sqlite.Stmt) (err error) {
				tenant, err = scanInstall(r)
				return err
			}, whole.Tenant, whole.Install)
			if err != nil {
				return err
			}
		}
		err := sqlitedb.ForEach(c, sqlInstall, func(r *sqlite.Stmt) (err error) {
			in, err = scanInstall(r)
			return err
		}, o.Tenant, o.Install)
		if err != nil {
			return err
		}
		in.Tenant = ext.TenantState{Deletion: tenant.Deletion, TokensAfter: tenant.TokensAfter}
		return sqlitedb.ForEach(c, sqlRevokedTokens, func(r *sqlite.Stmt) error {
			revoked = append(revoked, r.ColumnText(0))
			return nil
		}, o.Tenant, o.Install, now)
	})
	if err != nil {
		return ext.Install{}, nil, err
	}
	return in, revoked, nil
}

// RevokedTokens implements extstorage.Tokens.
func (s *Store) RevokedTokens(ctx context.Context, o ext.Owner, now ext.Moment) (all []ext.RevokedToken, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, "ext.revoked_tokens", func(c *sqlite.Conn) error {
		return sqlitedb.ForEach(c, sqlRevokedTokens, func(r *sqlite.Stmt) error {
			all = append(all, ext.RevokedToken{ID: r.ColumnText(0), ExpiresAt: ext.Moment(r.ColumnInt64(1)), RevokedAt: ext.Moment(r.ColumnInt64(2))})
			return nil
		}, o.Tenant, o.Install, now)
	})
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
	return s.db.Write(ctx, "ext.revoke_token", func(c *sqlite.Conn) error {
		if err := refuseClosed(c, o); err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlRevokeToken, o.Tenant, o.Install, t.ID, t.ExpiresAt, t.RevokedAt)
	})
}
