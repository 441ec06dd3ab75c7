package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// overrides is a quota as stored.
type overrides struct {
	Bytes      int64 `json:"bytes,omitempty"`
	Namespaces int64 `json:"namespaces,omitempty"`
	Keys       int64 `json:"keys,omitempty"`
}

// Install implements extstorage.Installs.
func (s *Store) Install(ctx context.Context, o ext.Owner) (in ext.Install, err error) {
	if err := o.Check(); err != nil {
		return ext.Install{}, err
	}
	var row installRow
	found, err := s.db.QueryRow(ctx, sqlInstall, []any{string(o.Tenant), string(o.Install)}, row.columns()...)
	if err != nil {
		return ext.Install{}, err
	}
	if !found {
		return ext.Install{}, ext.ErrNoInstall
	}
	return row.install()
}

// installRow holds the destinations for an install's columns.
type installRow struct {
	tier                             string
	granted                          []byte
	namespaces                       []byte
	until, revoked, created, updated pgtype.Timestamptz

	deleting, deletedAt, tokensAfter pgtype.Timestamptz
	deletion                         []byte
}

// columns returns the destinations in order.
func (r *installRow) columns() []any {
	return []any{&r.tier, &r.granted, &r.until, &r.namespaces, &r.revoked, &r.created, &r.updated,
		&r.deleting, &r.deletedAt, &r.deletion, &r.tokensAfter}
}

// install decodes the last row read.
func (r *installRow) install() (in ext.Install, err error) {
	var quota overrides
	if err := json.Unmarshal(r.granted, &quota); err != nil {
		return ext.Install{}, broken(err)
	}
	if r.namespaces != nil {
		if err := json.Unmarshal(r.namespaces, &in.Namespaces); err != nil {
			return ext.Install{}, broken(err)
		}
	}
	in.Tier, in.Overrides = r.tier, ext.Overrides{Quota: ext.Quota(quota), Until: momentOf(r.until)}
	in.RevokedAt, in.CreatedAt, in.UpdatedAt = momentOf(r.revoked), momentOf(r.created), momentOf(r.updated)
	in.TokensAfter = momentOf(r.tokensAfter)
	in.Deletion = ext.Deletion{StartedAt: momentOf(r.deleting), FinishedAt: momentOf(r.deletedAt)}
	if err := json.Unmarshal(r.deletion, &in.Deletion.Deleted); err != nil {
		return ext.Install{}, broken(err)
	}
	return in, nil
}

// broken hides a decoding error's text from clients: it may contain data.
func broken(err error) error {
	return errcode.Wrap(errcode.Internal, "internal error", err)
}

// SetInstall implements extstorage.Installs.
func (s *Store) SetInstall(ctx context.Context, o ext.Owner, r ext.Registration, restore bool, at ext.Moment) (in ext.Install, created bool, err error) {
	if err := o.Check(); err != nil {
		return ext.Install{}, false, err
	}
	set := registered{owner: o, Registration: r, restore: restore, at: at}
	if set.granted, err = json.Marshal(overrides(r.Overrides.Quota)); err != nil {
		return ext.Install{}, false, err
	}
	if r.Namespaces != nil {
		if set.namespaces, err = json.Marshal(r.Namespaces); err != nil {
			return ext.Install{}, false, err
		}
	}
	var text []byte
	if _, err = s.db.QueryRow(ctx, sqlSetInstall.Statement, sqlSetInstall.Args(set), &text); err != nil {
		return ext.Install{}, false, refusedClosed(err)
	}
	var answer struct {
		RevokedAt   ext.Moment `json:"revokedAt"`
		CreatedAt   ext.Moment `json:"createdAt"`
		TokensAfter ext.Moment `json:"tokensAfter"`
		Created     bool       `json:"created"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return ext.Install{}, false, broken(err)
	}
	return ext.Install{
		Registration: r, RevokedAt: answer.RevokedAt, CreatedAt: answer.CreatedAt, TokensAfter: answer.TokensAfter, UpdatedAt: at,
	}, answer.Created, nil
}

// RestoreInstall takes locks in the order of ext_set_install_v1.
func (s *Store) RestoreInstall(ctx context.Context, o ext.Owner, at ext.Moment) error {
	if err := o.Check(); err != nil {
		return err
	}
	args := []any{string(o.Tenant), string(o.Install), now(at)}
	err := s.db.Tx(ctx, "ext.restore_install", func(tx *pgdb.Tx) error {
		if _, err := tx.Exec(sqlTenant, string(o.Tenant), now(at)); err != nil {
			return err
		}
		if _, err := tx.Exec(sqlReopen, args...); err != nil {
			return err
		}
		if _, err := tx.Exec(sqlLock, args...); err != nil {
			return err
		}
		restored, err := tx.Exec(sqlRestoreInstall, args...)
		if err == nil && restored == 0 {
			err = ext.ErrNoInstall
		}
		return err
	})
	return refusedClosed(err)
}

// SwapQuota implements extstorage.Installs.
func (s *Store) SwapQuota(ctx context.Context, o ext.Owner, from, to ext.Registration, at ext.Moment) (bool, error) {
	if err := o.Check(); err != nil {
		return false, err
	}
	before, err := json.Marshal(overrides(from.Overrides.Quota))
	if err != nil {
		return false, err
	}
	after, err := json.Marshal(overrides(to.Overrides.Quota))
	if err != nil {
		return false, err
	}
	var n int64
	return s.db.QueryRow(ctx, sqlSwapQuota, []any{
		string(o.Tenant), string(o.Install), from.Tier, string(before), moment(from.Overrides.Until),
		to.Tier, string(after), moment(to.Overrides.Until), now(at),
	}, &n)
}

// registered holds the parameters for ext_set_install_v1.
type registered struct {
	owner ext.Owner
	ext.Registration
	granted, namespaces []byte
	restore             bool
	at                  ext.Moment
}

// args names and orders the parameters for pgdb.
func (r registered) args() []pgdb.Arg {
	return []pgdb.Arg{
		tenant(r.owner), install(r.owner),
		{Param: "p_tier text", Value: r.Tier},
		{Param: "p_overrides text", Value: orNull(string(r.granted))},
		{Param: "p_until timestamptz", Value: moment(r.Overrides.Until)},
		{Param: "p_namespaces text", Value: orNull(string(r.namespaces))},
		{Param: "p_now timestamptz", Value: now(r.at)},
		{Param: "p_restore boolean", Value: r.restore},
	}
}

// RevokeInstall implements extstorage.Installs.
func (s *Store) RevokeInstall(ctx context.Context, o ext.Owner, at ext.Moment) error {
	if err := o.Check(); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, sqlRevokeInstall, string(o.Tenant), string(o.Install), now(at))
	return refusedClosed(err)
}
