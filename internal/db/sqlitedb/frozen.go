package sqlitedb

import (
	"context"
	"errors"

	"zombiezen.com/go/sqlite"
)

// Frozen is a snapshot of a database file, which others may continue to write. Until Close no process can restart the
// write-ahead log.
type Frozen struct{ conn *sqlite.Conn }

// Freeze returns the file's current state. Close it before the DB.
func (db *DB) Freeze() (*Frozen, error) {
	conn, err := openConn(db.opts.Path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, classify(err)
	}
	if err := begin(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Frozen{conn}, nil
}

// Close ends the snapshot.
func (f *Frozen) Close() error { return classify(f.conn.Close()) }

// Pages calls fn with each page, numbered from 1. fn must not keep data.
func (f *Frozen) Pages(ctx context.Context, fn func(number uint32, data []byte) error) error {
	f.conn.SetInterrupt(ctx.Done())
	defer f.conn.SetInterrupt(nil)
	var data []byte
	return ForEach(f.conn, `SELECT pgno, data FROM sqlite_dbpage`, func(s *sqlite.Stmt) error {
		if n := s.ColumnLen(1); n != len(data) {
			data = make([]byte, n)
		}
		s.ColumnBytes(1, data)
		return fn(uint32(s.ColumnInt64(0)), data)
	})
}

// Size returns the number of pages and the bytes per page.
func (f *Frozen) Size() (pages, bytes uint32, err error) {
	if pages, err = f.number(`PRAGMA page_count`); err != nil {
		return 0, 0, err
	}
	bytes, err = f.number(`PRAGMA page_size`)
	return pages, bytes, err
}

func (f *Frozen) number(pragma string) (uint32, error) {
	n, _, err := QueryRow(f.conn, pragma, func(s *sqlite.Stmt) uint32 { return uint32(s.ColumnInt64(0)) })
	return n, classify(err)
}
