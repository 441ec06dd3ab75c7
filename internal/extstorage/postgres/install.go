package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// overrides are the stored quotas; those that are not overridden are absent.
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

// installRow is a row of installColumns.
type installRow struct {
	tier                             string
	granted                          []byte
	namespaces                       []byte // nil: NULL
	until, revoked, created, updated pgtype.Timestamptz

	deleting, deletedAt, tokensAfter pgtype.Timestamptz
	deletion                         []byte
}

func (r *installRow) columns() []any {
	return []any{&r.tier, &r.granted, &r.until, &r.namespaces, &r.revoked, &r.created, &r.updated,
		&r.deleting, &r.deletedAt, &r.deletion, &r.tokensAfter}
}

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

func broken(err error) error {
	return errcode.Wrap(errcode.Internal, "internal error", err)
}

// SetInstall implements extstorage.Installs.
func (s *Store) SetInstall(ctx context.Context, o ext.Owner, r ext.Registration, restore bool, at ext.Moment) (in ext.Install, created bool, err error) {
	if err := o.Check(); err != nil {
		return ext.Install{}, false, err
	}
	granted, err := json.Marshal(overrides(r.Overrides.Quota))
	if err != nil {
		return ext.Install{}, false, err
	}
	var namespaces *string
	if r.Namespaces != nil {
		text, err := json.Marshal(r.Namespaces)
		if err != nil {
			return ext.Install{}, false, err
		}
		all := string(text)
		namespaces = &all
	}
	var answer []int64
	_, err = s.db.QueryRow(ctx, sqlSetInstall, []any{string(o.Tenant), string(o.Install), r.Tier,
		string(granted), moment(r.Overrides.Until), namespaces, now(at), restore}, &answer)
	switch {
	case err != nil:
		return ext.Install{}, false, refusedClosed(err)
	case len(answer) != 4:
		return ext.Install{}, false, errcode.Wrap(errcode.Internal, "internal error", fmt.Errorf("%s answered %v", sqlSetInstall.Name, answer))
	}
	return ext.Install{
		Registration: r, RevokedAt: ext.Moment(answer[0]), CreatedAt: ext.Moment(answer[1]), TokensAfter: ext.Moment(answer[2]), UpdatedAt: at,
	}, answer[3] == 1, nil
}

// RevokeInstall implements extstorage.Installs.
func (s *Store) RevokeInstall(ctx context.Context, o ext.Owner, at ext.Moment) error {
	if err := o.Check(); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, sqlRevokeInstall, string(o.Tenant), string(o.Install), now(at))
	return refusedClosed(err)
}
