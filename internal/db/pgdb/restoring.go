package pgdb

import (
	"context"
	"time"
)

// everyService is the row of unfinished_restore that stands for all services, because it is not known yet which of
// them a dump contains.
const everyService = "*"

// The table unfinished_restore exists while a restored database is not prepared for clients. pg_restore writes the
// server's own tables, so the mark cannot be in one of them.
var (
	beginRestore = Statement{Name: "restore.begin", SQL: `
		CREATE TABLE IF NOT EXISTS unfinished_restore (service TEXT PRIMARY KEY, moment TIMESTAMPTZ NOT NULL)`}
	markRestore = Statement{Name: "restore.mark", SQL: `
		INSERT INTO unfinished_restore (service, moment) VALUES ('` + everyService + `', $1::timestamptz)
		ON CONFLICT (service) DO UPDATE SET moment = excluded.moment`}
	// to_regclass: an unknown table in a statement would be an error in PostgreSQL's log at each start.
	restoreTables = Statement{Name: "restore.tables", SQL: `
		SELECT to_regclass('unfinished_restore') IS NOT NULL, to_regclass('schema_migrations') IS NULL`}
	readRestore = Statement{Name: "restore.read", SQL: `
		SELECT min(moment) FROM unfinished_restore WHERE service IN ('` + everyService + `', $1::text) HAVING count(*) > 0`}
	endRestore = Statement{Name: "restore.end", SQL: `
		WITH done AS (DELETE FROM unfinished_restore WHERE service IN ('` + everyService + `', $1::text) RETURNING service, moment)
		INSERT INTO unfinished_restore (service, moment)
		SELECT DISTINCT m.service, done.moment FROM schema_migrations m, done
		WHERE done.service = '` + everyService + `' AND m.service NOT IN ('server', $1::text)`}
	countRestores = Statement{Name: "restore.count", SQL: `SELECT count(*) FROM unfinished_restore`}
	dropRestore   = Statement{Name: "restore.drop", SQL: `DROP TABLE unfinished_restore`}
)

// UnfinishedRestore describes a restored dump that is not prepared for clients yet.
type UnfinishedRestore struct {
	Moment  time.Time // of the dump
	IsEmpty bool      // pg_restore has written nothing
}

// BeginRestore marks the database before a dump with the state of a moment is restored. Until EndRestore,
// UnfinishedRestore reports each service that the dump contains. It may be repeated.
func (db *DB) BeginRestore(ctx context.Context, moment time.Time) error {
	return db.Tx(ctx, "begin_restore", func(tx *Tx) error {
		if _, err := tx.Exec(beginRestore); err != nil {
			return err
		}
		_, err := tx.Exec(markRestore, moment)
		return err
	})
}

// UnfinishedRestore returns nil unless a dump was restored and the service was not prepared for clients since.
func (db *DB) UnfinishedRestore(ctx context.Context, service string) (*UnfinishedRestore, error) {
	u, marked := &UnfinishedRestore{}, false
	if _, err := db.QueryRow(ctx, restoreTables, nil, &marked, &u.IsEmpty); err != nil || !marked {
		return nil, err
	}
	found, err := db.QueryRow(ctx, readRestore, []any{service}, &u.Moment)
	if err != nil || !found {
		return nil, err
	}
	return u, nil
}

// EndRestore records that a service was prepared for clients. Other services that the dump contains stay marked. It
// may be repeated, and does nothing without BeginRestore.
func (db *DB) EndRestore(ctx context.Context, service string) error {
	return db.Tx(ctx, "end_restore", func(tx *Tx) error {
		var marked, isEmpty bool
		if _, err := tx.QueryRow(restoreTables, nil, &marked, &isEmpty); err != nil || !marked || isEmpty {
			return err
		}
		if _, err := tx.Exec(endRestore, service); err != nil {
			return err
		}
		var left int
		if _, err := tx.QueryRow(countRestores, nil, &left); err != nil || left > 0 {
			return err
		}
		_, err := tx.Exec(dropRestore)
		return err
	})
}

// AbandonRestore removes the mark of BeginRestore if pg_restore has written nothing.
func (db *DB) AbandonRestore(ctx context.Context) error {
	return db.Tx(ctx, "abandon_restore", func(tx *Tx) error {
		var marked, isEmpty bool
		if _, err := tx.QueryRow(restoreTables, nil, &marked, &isEmpty); err != nil || !marked || !isEmpty {
			return err
		}
		_, err := tx.Exec(dropRestore)
		return err
	})
}
