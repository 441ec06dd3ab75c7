package sqlite

import (
	"context"
	"encoding/json"

	"zombiezen.com/go/sqlite"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

// Install implements extstorage.Installs.
func (s *Store) Install(ctx context.Context, o ext.Owner) (in ext.Install, err error) {
	if err := o.Check(); err != nil {
		return in, err
	}
	var namespaces string
	err = s.db.Read(ctx, "ext.install", func(c *sqlite.Conn) error {
		var found bool
		in, found, err = one(c, sqlInstall, func(r *sqlite.Stmt) ext.Install {
			namespaces = r.ColumnText(5)
			return ext.Install{
				Tier: r.ColumnText(0),
				Overrides: ext.Overrides{
					Quota: ext.Quota{Bytes: r.ColumnInt64(1), Namespaces: r.ColumnInt64(2), Keys: r.ColumnInt64(3)},
					Until: ext.Moment(r.ColumnInt64(4)),
				},
				RevokedAt: ext.Moment(r.ColumnInt64(6)), CreatedAt: ext.Moment(r.ColumnInt64(7)), UpdatedAt: ext.Moment(r.ColumnInt64(8)),
			}
		}, o.Tenant, o.Install)
		if err == nil && !found {
			err = ext.ErrNoInstall
		}
		return err
	})
	if err == nil && namespaces != "" {
		if err := json.Unmarshal([]byte(namespaces), &in.Namespaces); err != nil {
			return ext.Install{}, fault.Wrap(fault.Internal, "a kept install is not whole", err)
		}
	}
	return in, err
}

// SetInstall implements extstorage.Installs.
func (s *Store) SetInstall(ctx context.Context, o ext.Owner, in ext.Install, now ext.Moment) error {
	if err := o.Check(); err != nil {
		return err
	}
	var namespaces optional
	if in.Namespaces != nil {
		text, err := json.Marshal(in.Namespaces)
		if err != nil {
			return fault.Wrap(fault.Internal, "internal error", err)
		}
		namespaces = optional(text)
	}
	q := in.Overrides.Quota
	return s.db.Write(ctx, "ext.set_install", func(c *sqlite.Conn) error {
		return exec(c, sqlSetInstall, o.Tenant, o.Install, in.Tier, q.Bytes, q.Namespaces, q.Keys,
			in.Overrides.Until, namespaces, in.RevokedAt, int64(now))
	})
}
