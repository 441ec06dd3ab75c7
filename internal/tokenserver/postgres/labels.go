package postgres

import (
	"context"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/tokenserver"
)

// SetLabel implements tokenserver.Labels.
func (s *Store) SetLabel(ctx context.Context, a tokenserver.Account, l tokenserver.Label) (bool, error) {
	if err := l.Check(); err != nil {
		return false, err
	}
	changed, err := s.changed(ctx, "token.set_label_tx", a, func(tx *pgdb.Tx) (int64, error) {
		switch {
		case l.FromProfile:
			return tx.Exec(sqlSetProfileLabel, a.FxAUID, l.Text, l.Key(), l.SetAt, a.Email())
		case l.Text == "":
			_, err := tx.Exec(sqlClearLabel, a.FxAUID)
			return 1, err
		}
		return tx.Exec(sqlSetLabel, a.FxAUID, l.Text, l.Key(), l.SetAt)
	})
	return changed > 0, err
}

// labelRow holds the destinations for a label.
type labelRow struct{ tokenserver.Label }

// dest returns the destinations in order.
func (r *labelRow) dest() []any { return []any{&r.FxAUID, &r.Text, &r.FromProfile, &r.SetAt} }

// LabelsOf implements tokenserver.Labels.
func (s *Store) LabelsOf(ctx context.Context, fxaUIDs []string) (map[string]tokenserver.Label, error) {
	var r labelRow
	var labels map[string]tokenserver.Label
	err := s.db.ForEach(ctx, sqlLabelsOf, []any{fxaUIDs}, func() { labels = map[string]tokenserver.Label{} }, func() error {
		labels[r.FxAUID] = r.Label
		return nil
	}, r.dest()...)
	return labels, err
}

// FindLabels implements tokenserver.Labels.
func (s *Store) FindLabels(ctx context.Context, f tokenserver.FindLabels) ([]tokenserver.Labelled, error) {
	first, end, err := f.Range()
	if err != nil {
		return nil, err
	}
	var u userRow
	var l labelRow
	return collect(ctx, s.db, sqlFindLabels, []any{f.Domain, first.Key(), first.FxAUID, end, f.Limit}, func() tokenserver.Labelled {
		return tokenserver.Labelled{Label: l.Label, User: u.user()}
	}, append(u.dest(), l.dest()...)...)
}
