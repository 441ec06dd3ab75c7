package sqlite

import (
	"context"
	"encoding/json"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/tokenserver"
)

// SetLabel implements tokenserver.Labels.
func (s *Store) SetLabel(ctx context.Context, a tokenserver.Account, l tokenserver.Label) (bool, error) {
	if err := l.Check(); err != nil {
		return false, err
	}
	changed, err := s.changed(ctx, "token.set_label", a, func(c *sqlite.Conn) (int, error) {
		switch {
		case l.FromProfile:
			err := sqlitedb.Exec(c, sqlSetProfileLabel, a.FxAUID, l.Text, l.Key(), l.SetAt, a.Email())
			return c.Changes(), err
		case l.Text == "":
			return 1, sqlitedb.Exec(c, sqlClearLabel, a.FxAUID)
		}
		return 1, sqlitedb.Exec(c, sqlSetLabel, a.FxAUID, l.Text, l.Key(), l.SetAt)
	})
	return changed > 0, err
}

// LabelsOf implements tokenserver.Labels.
func (s *Store) LabelsOf(ctx context.Context, fxaUIDs []string) (labels map[string]tokenserver.Label, err error) {
	ids, err := json.Marshal(fxaUIDs)
	if err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, "token.labels_of", func(c *sqlite.Conn) error {
		all, err := sqlitedb.QueryAll(c, sqlLabelsOf, func(stmt *sqlite.Stmt) tokenserver.Label { return scanLabel(stmt, 0) }, string(ids))
		labels = make(map[string]tokenserver.Label, len(all))
		for _, l := range all {
			labels[l.FxAUID] = l
		}
		return err
	})
	return labels, err
}

// scanLabel reads a label from column at on.
func scanLabel(stmt *sqlite.Stmt, at int) tokenserver.Label {
	return tokenserver.Label{
		FxAUID: stmt.ColumnText(at), Text: stmt.ColumnText(at + 1), FromProfile: stmt.ColumnBool(at + 2), SetAt: stmt.ColumnInt64(at + 3),
	}
}

// FindLabels implements tokenserver.Labels.
func (s *Store) FindLabels(ctx context.Context, f tokenserver.FindLabels) (labelled []tokenserver.Labelled, err error) {
	first, end, err := f.Range()
	if err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, "token.find_labels", func(c *sqlite.Conn) error {
		labelled, err = sqlitedb.QueryAll(c, sqlFindLabels, func(stmt *sqlite.Stmt) tokenserver.Labelled {
			return tokenserver.Labelled{Label: scanLabel(stmt, 9), User: scanUser(stmt)}
		}, f.Domain, first.Key(), first.FxAUID, end, f.Limit)
		return err
	})
	return labelled, err
}
