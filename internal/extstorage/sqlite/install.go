package sqlite

import (
	"context"
	"encoding/json"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// Install implements extstorage.Installs.
func (s *Store) Install(ctx context.Context, o ext.Owner) (in ext.Install, err error) {
	if err := o.Check(); err != nil {
		return in, err
	}
	found := false
	err = s.db.Read(ctx, "ext.install", func(c *sqlite.Conn) error {
		return sqlitedb.ForEach(c, sqlInstall, func(r *sqlite.Stmt) (err error) {
			found = true
			in, err = scanInstall(r)
			return err
		}, o.Tenant, o.Install)
	})
	if err == nil && !found {
		err = ext.ErrNoInstall
	}
	return in, err
}

// scanInstall reads a registration with its deletion.
func scanInstall(r *sqlite.Stmt) (in ext.Install, err error) {
	in = ext.Install{
		Registration: ext.Registration{
			Tier: r.ColumnText(0),
			Overrides: ext.Overrides{
				Quota: ext.Quota{Bytes: r.ColumnInt64(1), Namespaces: r.ColumnInt64(2), Keys: r.ColumnInt64(3)},
				Until: ext.Moment(r.ColumnInt64(4)),
			},
		},
		RevokedAt: ext.Moment(r.ColumnInt64(6)), CreatedAt: ext.Moment(r.ColumnInt64(7)), UpdatedAt: ext.Moment(r.ColumnInt64(8)),
	}
	in.TokensAfter = ext.Moment(r.ColumnInt64(12))
	in.Deletion = ext.Deletion{StartedAt: ext.Moment(r.ColumnInt64(9)), FinishedAt: ext.Moment(r.ColumnInt64(10))}
	if deletion := r.ColumnText(11); deletion != "" {
		if err := json.Unmarshal([]byte(deletion), &in.Deletion.Deleted); err != nil {
			return ext.Install{}, errcode.Wrap(errcode.Internal, "the stored deletion is not valid JSON", err)
		}
	}
	if namespaces := r.ColumnText(5); namespaces != "" {
		if err := json.Unmarshal([]byte(namespaces), &in.Namespaces); err != nil {
			return ext.Install{}, errcode.Wrap(errcode.Internal, "internal error", err)
		}
	}
	return in, nil
}

// SetInstall implements extstorage.Installs.
func (s *Store) SetInstall(ctx context.Context, o ext.Owner, r ext.Registration, restore bool, now ext.Moment) (in ext.Install, created bool, err error) {
	if err := o.Check(); err != nil {
		return ext.Install{}, false, err
	}
	var namespaces string
	if r.Namespaces != nil {
		text, err := json.Marshal(r.Namespaces)
		if err != nil {
			return ext.Install{}, false, errcode.Wrap(errcode.Internal, "internal error", err)
		}
		namespaces = string(text)
	}
	q := r.Overrides.Quota
	err = s.db.Write(ctx, "ext.set_install", func(c *sqlite.Conn) error {
		_, known, err := sqlitedb.QueryRow(c, sqlInstall, scanInt64, o.Tenant, o.Install)
		if err != nil {
			return err
		}
		created = !known
		if restore {
			reopened, err := reopenInTenant(c, o, now)
			if err != nil {
				return err
			}
			created = created || reopened
		}
		if err := refuseClosed(c, o); err != nil {
			return err
		}
		in, _, err = sqlitedb.QueryRow(c, sqlSetInstall, func(row *sqlite.Stmt) ext.Install {
			return ext.Install{Registration: r, RevokedAt: ext.Moment(row.ColumnInt64(0)), CreatedAt: ext.Moment(row.ColumnInt64(1)), TokensAfter: ext.Moment(row.ColumnInt64(2)), UpdatedAt: now}
		}, o.Tenant, o.Install, r.Tier, q.Bytes, q.Namespaces, q.Keys, orNull(r.Overrides.Until), orNull(namespaces), now, restore)
		return err
	})
	if err != nil {
		return ext.Install{}, false, err
	}
	return in, created, nil
}

// reopenInTenant refuses while the tenant is deleted.
func reopenInTenant(c *sqlite.Conn, o ext.Owner, now ext.Moment) (reopened bool, err error) {
	if err := refuseClosed(c, ext.Services(o.Tenant)); err != nil {
		return false, err
	}
	return reopen(c, o, now)
}

// RestoreInstall implements extstorage.Installs.
func (s *Store) RestoreInstall(ctx context.Context, o ext.Owner, now ext.Moment) error {
	if err := o.Check(); err != nil {
		return err
	}
	return s.db.Write(ctx, "ext.restore_install", func(c *sqlite.Conn) error {
		if _, err := reopenInTenant(c, o, now); err != nil {
			return err
		}
		if err := refuseClosed(c, o); err != nil {
			return err
		}
		_, found, err := sqlitedb.QueryRow(c, sqlRestoreInstall, scanInt64, o.Tenant, o.Install, now)
		if err == nil && !found {
			err = ext.ErrNoInstall
		}
		return err
	})
}

// SwapQuota implements extstorage.Installs.
func (s *Store) SwapQuota(ctx context.Context, o ext.Owner, from, to ext.Registration, now ext.Moment) (done bool, err error) {
	if err := o.Check(); err != nil {
		return false, err
	}
	before, after := from.Overrides, to.Overrides
	err = s.db.Write(ctx, "ext.swap_quota", func(c *sqlite.Conn) error {
		_, done, err = sqlitedb.QueryRow(c, sqlSwapQuota, scanInt64, o.Tenant, o.Install,
			from.Tier, before.Bytes, before.Namespaces, before.Keys, orNull(before.Until),
			to.Tier, after.Bytes, after.Namespaces, after.Keys, orNull(after.Until), now)
		return err
	})
	return done, err
}

// RevokeInstall implements extstorage.Installs.
func (s *Store) RevokeInstall(ctx context.Context, o ext.Owner, now ext.Moment) error {
	if err := o.Check(); err != nil {
		return err
	}
	return s.db.Write(ctx, "ext.revoke_install", func(c *sqlite.Conn) error {
		if err := refuseClosed(c, o); err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlRevokeInstall, o.Tenant, o.Install, now)
	})
}
