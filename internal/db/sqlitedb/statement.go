package sqlitedb

import "zombiezen.com/go/sqlite"

// What runs a statement that the connection keeps, its arguments bound, and
// leaves it ready for the next time.

// One runs a statement that returns one row at most.
func One[T any](stmt *sqlite.Stmt, scan func(*sqlite.Stmt) T) (v T, found bool, err error) {
	if found, err = stmt.Step(); found {
		v = scan(stmt)
	}
	if reset := stmt.Reset(); err == nil {
		err = reset
	}
	return v, found, err
}

// Exec runs a statement that returns no rows.
func Exec(stmt *sqlite.Stmt) error {
	_, err := stmt.Step()
	if reset := stmt.Reset(); err == nil {
		err = reset
	}
	return err
}

// Each runs a statement and hands every row to fn; an error of fn ends it.
func Each(stmt *sqlite.Stmt, fn func(*sqlite.Stmt) error) error {
	for {
		row, err := stmt.Step()
		if err == nil && row {
			err = fn(stmt)
		}
		if err != nil || !row {
			if reset := stmt.Reset(); err == nil {
				err = reset
			}
			return err
		}
	}
}
