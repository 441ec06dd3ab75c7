package pgdb

import "context"

var (
	sizeOf = Statement{Name: "server.size", SQL: `SELECT pg_database_size(current_database())`}

	sizeOnNodes = Statement{Name: "server.size", SQL: `
		SELECT coalesce(sum(result::bigint), 0)::bigint
		FROM run_command_on_all_nodes('SELECT pg_database_size(current_database())') WHERE success`}
)

// Size returns the disk usage in bytes. On Citus it is the total of the nodes that respond.
func (db *DB) Size(ctx context.Context) (size int64, err error) {
	citus, err := db.IsCitus(ctx)
	if err != nil {
		return 0, err
	}
	s := sizeOf
	if citus {
		s = sizeOnNodes
	}
	_, err = db.QueryRow(ctx, s, nil, &size)
	return size, err
}
