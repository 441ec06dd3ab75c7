package sqlitedb

import (
	"fmt"
	"reflect"

	"zombiezen.com/go/sqlite"
)

// These functions use the connection's statement cache. Arguments are integers, bools, strings or []byte. nil is
// NULL; empty strings and slices are not.

// QueryRow scans the first row and reports whether there was one. QueryRow, Exec, ForEach and QueryAll use the
// connection's statement cache, so sql should be constant. Arguments are integers, bools, strings or []byte. nil is
// NULL; empty strings and slices are not. A wrong number of arguments is an error, another type a panic.
func QueryRow[T any](c *sqlite.Conn, sql string, scan func(*sqlite.Stmt) T, args ...any) (v T, found bool, err error) {
	stmt, err := bind(c, sql, args)
	if err != nil {
		return v, false, err
	}
	if found, err = stmt.Step(); found {
		v = scan(stmt)
	}
	return v, found, reset(stmt, err)
}

// Exec runs a statement without rows.
func Exec(c *sqlite.Conn, sql string, args ...any) error {
	stmt, err := bind(c, sql, args)
	if err != nil {
		return err
	}
	_, err = stmt.Step()
	return reset(stmt, err)
}

// ForEach calls fn for each row. fn must not keep the statement.
func ForEach(c *sqlite.Conn, sql string, fn func(*sqlite.Stmt) error, args ...any) error {
	stmt, err := bind(c, sql, args)
	if err != nil {
		return err
	}
	for {
		row, err := stmt.Step()
		if row {
			err = fn(stmt)
		}
		if err != nil || !row {
			return reset(stmt, err)
		}
	}
}

// QueryAll scans all rows.
func QueryAll[T any](c *sqlite.Conn, sql string, scan func(*sqlite.Stmt) T, args ...any) (rows []T, err error) {
	err = ForEach(c, sql, func(stmt *sqlite.Stmt) error {
		rows = append(rows, scan(stmt))
		return nil
	}, args...)
	return rows, err
}

// bind prepares a statement and binds its arguments.
func bind(c *sqlite.Conn, sql string, args []any) (*sqlite.Stmt, error) {
	stmt, err := c.Prepare(sql)
	if err != nil {
		return nil, err
	}
	if n := stmt.BindParamCount(); n != len(args) {
		return nil, fmt.Errorf("%d arguments for %d parameters", len(args), n)
	}
	for i, arg := range args {
		i++
		switch v := arg.(type) {
		case int64:
			stmt.BindInt64(i, v)
			continue
		case string:
			stmt.BindText(i, v)
			continue
		case []byte:
			stmt.BindBytes(i, v)
			continue
		}
		switch v := reflect.ValueOf(arg); v.Kind() {
		case reflect.Invalid:
			stmt.BindNull(i)
		case reflect.Int, reflect.Int32, reflect.Int64:
			stmt.BindInt64(i, v.Int())
		case reflect.Float64:
			stmt.BindFloat(i, v.Float())
		case reflect.Bool:
			stmt.BindBool(i, v.Bool())
		case reflect.String:
			stmt.BindText(i, v.String())
		case reflect.Slice:
			stmt.BindBytes(i, v.Bytes())
		default:
			panic("sqlitedb: no binding for the argument's type")
		}
	}
	return stmt, nil
}

// Bind prepares a statement for a caller that steps it several times and rebinds arguments. Reset it before each step
// and at the end.
func Bind(c *sqlite.Conn, sql string, args ...any) (*sqlite.Stmt, error) { return bind(c, sql, args) }

// reset makes a statement ready for its next use, and returns err or its own error.
func reset(stmt *sqlite.Stmt, err error) error {
	if again := stmt.Reset(); err == nil {
		err = again
	}
	return err
}

// Repeat runs a statement without rows n times. bind sets all parameters for run i.
func Repeat(c *sqlite.Conn, sql string, n int, bind func(i int, s *sqlite.Stmt)) error {
	if n == 0 {
		return nil
	}
	stmt, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	for i := range n {
		bind(i, stmt)
		_, err := stmt.Step()
		if err := reset(stmt, err); err != nil {
			return err
		}
	}
	return nil
}
