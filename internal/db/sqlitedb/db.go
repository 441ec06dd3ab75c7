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

// Options configure Open. Only Path is required.
type Options struct {
	// Path is the file. It is created with mode 0600 in an existing folder.
	Path string

	// Readers limits concurrent reads, including streams. The default is 64.
	Readers int

	// SmallCache limits the writer's page cache to an eighth, for commands that change each page once.
	SmallCache bool

	// Observe, if set, is called for every read and write. The duration includes the wait for the group.
	Observe func(step string, d time.Duration, err error)

	ObserveGroup func(Group) // called for every commit, if set

	// Fault, for tests, is called wherever a write can fail: "begin", "step NAME" after a write's statements, and
	// "commit".
	Fault func(point string) error
}

// DB is an open file, safe for concurrent use.
type DB struct {
	opts    Options
	queue   chan *pendingWrite      // writes for the writer
	calls   chan func(*sqlite.Conn) // see between
	closing chan struct{}           // closed by Close
	once    sync.Once
	stopped chan struct{} // closed when the writer ended
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
		queue:   make(chan *pendingWrite, maxGroup),
		calls:   make(chan func(*sqlite.Conn)),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
		readers: newReaders(opts.Path, opts.Readers),
	}
	conn.SetBusyTimeout(0)
	db.writer = &writer{db: db, conn: conn}
	go db.writer.run()
	return db, nil
}

// create durably creates a missing file. It must not open an existing file: closing any descriptor drops the SQLite
// locks of another DB in this process.
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

// openConn opens a connection with the settings that all connections share. mode says whether it may write.
func openConn(path string, mode sqlite.OpenFlags) (*sqlite.Conn, error) {
	if err := keepPlans(); err != nil {
		return nil, err
	}
	conn, err := sqlite.OpenConn(path, mode)
	if err != nil {
		return nil, err
	}
	// Another process (e.g. a command) may hold the lock for its transaction, or be recovering the WAL.
	conn.SetBusyTimeout(patience)
	// The file may come from a backup that somebody else wrote: its triggers and views may call only harmless functions.
	pragmas := []string{untrusted, `foreign_keys = ON`, `temp_store = MEMORY`}
	if mode&sqlite.OpenReadWrite == 0 {
		// There are many connections, and each drops its cache when it reads after a write.
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

// untrusted is SQLite's advice for files from elsewhere (https://sqlite.org/security.html).
const untrusted = `trusted_schema = OFF`

// CheckpointPages is how many WAL frames trigger a checkpoint.
const CheckpointPages = 4000

var autoCheckpoint = fmt.Sprintf(`PRAGMA wal_autocheckpoint = %d`, CheckpointPages)

// Page cache bytes per connection. The driver allocates 8 KiB for a 4 KiB page.
const (
	readerCache = 128 << 10
	writerCache = 4 << 20
	perPage     = 2         // bytes of heap per byte of cache
	perConn     = 128 << 10 // bytes beside the cache
)

// cacheSize returns the pragma for a cache of n bytes.
func cacheSize(n int) string { return fmt.Sprintf(`cache_size = -%d`, n>>10) }

// CacheBytes returns how much memory the connections use at most, outside the Go heap's limit.
func (db *DB) CacheBytes() int64 {
	readers := int64(cap(db.readers.free))
	return writerCache*perPage + perConn + readers*(readerCache*perPage+perConn)
}

// patience is how long a connection waits for a lock that another process holds.
const patience = 5 * time.Second

// keepLog switches a file to WAL. When two processes do so to a new file concurrently, each waits for the other's
// lock, so SQLite returns "busy" to both.
func keepLog(conn *sqlite.Conn) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := sqlitex.ExecuteTransient(conn, `PRAGMA journal_mode = WAL`, nil)
		if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy || time.Now().After(deadline) {
			return err
		}
	}
}

// Close completes accepted writes and closes the file.
func (db *DB) Close() error {
	db.once.Do(func() { close(db.closing) })
	<-db.stopped
	// The writer's connection is last: only a connection that may write can remove the WAL.
	return errors.Join(db.readers.close(), db.writer.close())
}

func (db *DB) observe(name string, start time.Time, err error) {
	if db.opts.Observe != nil {
		db.opts.Observe(name, time.Since(start), err)
	}
}

var errClosed = errcode.New(errcode.Unavailable, "the database is closed")

// Backup writes a consistent, compact copy to a new path while reads and writes continue. It fails if the file
// exists. The copy is durable when Backup returns.
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
