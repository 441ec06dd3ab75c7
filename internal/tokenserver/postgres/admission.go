package postgres

import (
	"context"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/tokenserver"
)

// SetAccess implements tokenserver.Admission.
func (s *Store) SetAccess(ctx context.Context, a tokenserver.Account, r tokenserver.Rule, now time.Time) error {
	if err := a.Check(); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	// With the lock a concurrent sign-in either records its refusal before this, or sees the rule.
	return s.locked(ctx, "token.set_access_tx", a, func(tx *pgdb.Tx) error {
		if _, err := tx.Exec(sqlClearRefused, a.FxAUID); err != nil {
			return err
		}
		if r.Access == tokenserver.Unlisted {
			if _, err := tx.Exec(sqlClearAccess, a.FxAUID); err != nil {
				return err
			}
			_, err := tx.Exec(sqlForgetProfileLabel, a.FxAUID, a.Email())
			return err
		}
		_, err := tx.Exec(sqlSetAccess, a.FxAUID, r.Access.String(), r.Note, now.UnixMilli())
		return err
	})
}

// FindAccounts implements tokenserver.Admission.
func (s *Store) FindAccounts(ctx context.Context, prefix string, limit int) ([]string, error) {
	first, end, err := tokenserver.PrefixRange(prefix)
	if err != nil {
		return nil, err
	}
	var id string
	return collect(ctx, s.db, sqlFindAccounts, []any{first, end, limit}, func() string { return id }, &id)
}

// ListAccess implements tokenserver.Admission.
func (s *Store) ListAccess(ctx context.Context, after string, limit int) ([]tokenserver.Rule, error) {
	var r tokenserver.Rule
	var access string
	return collect(ctx, s.db, sqlListAccess, []any{after, limit}, func() tokenserver.Rule {
		r.Access = tokenserver.ParseAccess(access)
		return r
	}, &r.FxAUID, &access, &r.Note, &r.CreatedAt)
}

// Refused implements tokenserver.Admission.
func (s *Store) Refused(ctx context.Context, limit int) ([]tokenserver.Refused, error) {
	var r tokenserver.Refused
	return collect(ctx, s.db, sqlRefused, []any{limit}, func() tokenserver.Refused { return r },
		&r.FxAUID, &r.FirstAt, &r.LastAt, &r.Attempts)
}
