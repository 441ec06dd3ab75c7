package sqlitedb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// maxProblems is how many problems Verify reports.
const maxProblems = 20

// Verify reads the whole file with integrity_check, while it stays in use. It returns up to 20 problems; err means
// that the check itself failed.
func (db *DB) Verify(ctx context.Context) (problems []string, err error) {
	conn, err := db.readers.take(ctx)
	if err != nil {
		return nil, err
	}
	defer db.readers.giveBack(conn)
	return verify(ctx, conn)
}

// VerifyFile is like DB.Verify, but for a file that no server uses, e.g. in a backup.
func VerifyFile(ctx context.Context, path string) (problems []string, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	query := "mode=ro"
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		query = "immutable=1" // otherwise SQLite creates WAL files
	}
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: query}
	conn, err := sqlite.OpenConn(name.String(), sqlite.OpenReadOnly|sqlite.OpenURI)
	if damaged := damage(err); damaged != "" {
		return []string{damaged}, nil
	}
	if err != nil {
		return nil, openError(path, err)
	}
	if err = sqlitex.ExecuteTransient(conn, `PRAGMA `+untrusted, nil); err == nil {
		problems, err = verify(ctx, conn)
	}
	return problems, errors.Join(err, conn.Close())
}

func verify(ctx context.Context, conn *sqlite.Conn) (problems []string, err error) {
	conn.SetInterrupt(ctx.Done())
	defer conn.SetInterrupt(nil)
	add := func(s *sqlite.Stmt) error {
		if line := s.ColumnText(0); line != "ok" {
			problems = append(problems, line)
		}
		return nil
	}
	err = sqlitex.ExecuteTransient(conn, fmt.Sprintf(`PRAGMA integrity_check(%d)`, maxProblems), &sqlitex.ExecOptions{ResultFunc: add})
	if damaged := damage(err); damaged != "" && ctx.Err() == nil {
		return append(problems, damaged), nil
	}
	return problems, classify(cmp.Or(ctx.Err(), err))
}

// damage describes an error that means a damaged file, or returns "".
func damage(err error) string {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt:
		return "a page of the file is malformed"
	case sqlite.ResultNotADB:
		return "the file is not a SQLite database"
	}
	if sqlite.ErrCode(err) == sqlite.ResultIOErrRead || sqlite.ErrCode(err) == sqlite.ResultIOErrShortRead {
		return "a page of the file cannot be read"
	}
	return ""
}

// Remedy returns a fix for an error with the SQLite file at path.
func Remedy(err error, path string) string {
	dir := filepath.Dir(path)
	switch code := sqlite.ErrCode(err); {
	case code.ToPrimary() == sqlite.ResultFull || code == sqlite.ResultIOErrSHMSize:
		return "make space on the disk of " + dir
	case damage(err) != "":
		return "stop the server, and restore the file from a backup: holdfast backup verify DIR tells which backup is intact"
	case code.ToPrimary() == sqlite.ResultBusy || code.ToPrimary() == sqlite.ResultLocked:
		return "end the other process that uses the file, or wait for it"
	case code.ToPrimary() == sqlite.ResultReadOnly || code.ToPrimary() == sqlite.ResultPerm:
		return "let the user that runs holdfast write to " + dir + "; the kernel mounts a broken disk read-only"
	case code.ToPrimary() == sqlite.ResultIOErr || code.ToPrimary() == sqlite.ResultCantOpen:
		return "look at the disk of " + dir + " and at the log of the kernel"
	}
	return "look for damage with holdfast check --deep, or name another file in database_url"
}
