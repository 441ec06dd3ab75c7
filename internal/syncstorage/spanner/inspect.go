package spanner

import (
	"context"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	ss "holdfast/internal/syncstorage"
)

// Inspect compares the schema that is in use with Migrations.
func (s *Store) Inspect(ctx context.Context) (in ss.Inspection, err error) {
	for _, query := range []struct {
		names *[]string
		sql   string
	}{
		{&in.Indexes, `SELECT index_name FROM information_schema.indexes
			WHERE table_schema = '' AND index_type = 'INDEX' AND table_name IN ('user_collections', 'bsos', 'batches', 'batch_bsos')
			ORDER BY index_name`},
		{&in.Unswept, `SELECT table_name FROM information_schema.tables
			WHERE table_schema = '' AND table_name IN ('bsos', 'batches') AND row_deletion_policy_expression IS NULL
			ORDER BY table_name`},
	} {
		err := s.db.ForEach(ctx, spannerdb.Statement{Name: "inspect", SQL: query.sql}, nil, func(r *spanner.Row) error {
			var name string
			if err := r.Columns(&name); err != nil {
				return err
			}
			*query.names = append(*query.names, name)
			return nil
		})
		if err != nil {
			return in, err
		}
	}
	return in, nil
}
