package sqlitedb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

// Options configure Open.
type Options struct {
	// Path of the file. It is created in an existing folder, readable by its owner only.
	Path string

	// Readers is the maximum number of concurrent reads, including streams; 0 means 64.
	// Connections are opened when first needed.
	Readers int

	// SmallCache limits the page cache of the writer to an eighth, for a command that
	// changes each page once.
	SmallCache bool

	// Observe, if set, is called for every read and write with its name, its duration,
	// including the wait for the group, and its error.
	Observe func(step string, d time.Duration, err error)

	// ObserveGroup, if set, is called for every group of writes.
	ObserveGroup func(Group)

	// Fault, if set, is called at every point of a write where SQLite can fail: "begin",
	// "step NAME" after the statements of a write, and "commit". Its error is treated as
	// an error of SQLite. For tests only.
	Fault func(point string) error
}

// DB is an open file. It is safe for concurrent use.
type DB struct {
	opts    Options
	queue   chan *step
	calls   chan func(*sqlite.Conn) // run between groups
	closing chan struct{}
	once    sync.Once
	stopped chan struct{} // closed when the writer has ended
	writer  *writer
	readers readers
}

// Open opens the file and its writer.
func Open(_ context.Context, opts Options) (*DB, error) {
	if opts.Readers <= 0 {
		opts.Readers = 64
	}
	if err := create(opts.Path); err != nil {
		return nil, errcode.Wrap(errcode.Unavailable, "cannot open the database file", err)
	}
	conn, err := openConn(opts.Path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, openError(opts.Path, err)
	}
	if opts.SmallCache {
		if err := sqlitex.ExecuteTransient(conn, `PRAGMA `+cacheSize(writerCache/8), nil); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	db := &DB{
		opts:    opts,
		queue:   make(chan *step, maxGroup),
		calls:   make(chan func(*sqlite.Conn)),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
		readers: newReaders(opts.Path, opts.Readers),
	}
	conn.SetBusyTimeout(0) // see writer.lock
	db.writer = &writer{db: db, conn: conn}
	go db.writer.run()
	return db, nil
}

// create creates the file unless it exists, and makes its name durable. It does not open an existing file: when a
// process closes any descriptor of a file, it loses the locks that SQLite has on it for
// another DB of the process.
func create(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, access(path))
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return durable.SyncFolder(filepath.Dir(path))
}

// openConn opens a connection with the pragmas of every connection.
func openConn(path string, mode sqlite.OpenFlags) (*sqlite.Conn, error) {
	if err := keepPlans(); err != nil {
		return nil, err
	}
	conn, err := sqlite.OpenConn(path, mode)
	if err != nil {
		return nil, err
	}
	// Another process, such as a command, may hold the lock during its transaction, or may
	// be recovering the WAL.
	conn.SetBusyTimeout(patience)
	pragmas := []string{`foreign_keys = ON`, `temp_store = MEMORY`}
	if mode&sqlite.OpenReadWrite == 0 {
		// There are many connections, and each drops its cache when it begins to read after
		// a write.
		pragmas = append(pragmas, cacheSize(readerCache))
	} else {
		if err := keepLog(conn); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		pragmas = append(pragmas, cacheSize(writerCache),
			`synchronous = FULL`, `journal_size_limit = 67108864`)
		if err := sqlitex.ExecuteTransient(conn, autoCheckpoint, nil); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	for _, p := range pragmas {
		if err := sqlitex.ExecuteTransient(conn, `PRAGMA `+p, nil); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// CheckpointPages is the number of frames in the WAL after which it is written to the
// database file.
const CheckpointPages = 4000

var autoCheckpoint = fmt.Sprintf(`PRAGMA wal_autocheckpoint = %d`, CheckpointPages)

// Bytes of the page cache of a connection. The driver allocates 8 KiB for a page of 4
// KiB.
const (
	readerCache = 128 << 10
	writerCache = 4 << 20
	perPage     = 2
	perConn     = 128 << 10 // other memory of a connection
)

func cacheSize(n int) string { return fmt.Sprintf(`cache_size = -%d`, n>>10) }

// CacheBytes returns the maximum memory of the connections outside the heap of the Go
// runtime.
func (db *DB) CacheBytes() int64 {
	readers := int64(cap(db.readers.free))
	return writerCache*perPage + perConn + readers*(readerCache*perPage+perConn)
}

// patience is how long a connection waits for another process.
const patience = 5 * time.Second

// keepLog switches a file to WAL. If two processes do so at once on a new file, each
// waits for a lock of the other, so SQLite does not wait and reports "busy" to both.
func keepLog(conn *sqlite.Conn) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := sqlitex.ExecuteTransient(conn, `PRAGMA journal_mode = WAL`, nil)
		if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy || time.Now().After(deadline) {
			return err
		}
	}
}

// Close completes the accepted writes and closes the file. Reads in progress keep
// their connection until they end.
func (db *DB) Close() error {
	db.once.Do(func() { close(db.closing) })
	<-db.stopped
	// The connection of the writer is closed last: only a connection that may write can
	// remove the WAL.
	return errors.Join(db.readers.close(), db.writer.close())
}

func (db *DB) observe(name string, start time.Time, err error) {
	if db.opts.Observe != nil {
		db.opts.Observe(name, time.Since(start), err)
	}
}

// errClosed is the error of calls after Close.
var errClosed = errcode.New(errcode.Unavailable, "the database is closed")

// Backup writes a consistent, compact copy to a path that does not exist yet, while
// reads and writes continue.
func (db *DB) Backup(ctx context.Context, path string) error {
	conn, err := db.readers.take(ctx)
	if err != nil {
		return err
	}
	defer db.readers.giveBack(conn)
	conn.SetInterrupt(ctx.Done())
	defer conn.SetInterrupt(nil)
	err = sqlitex.ExecuteTransient(conn, `VACUUM INTO ?`, &sqlitex.ExecOptions{Args: []any{path}})
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return classify(fmt.Errorf("backup: %w", err))
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return errors.Join(os.Chmod(path, 0o600), f.Sync(), f.Close())
}
