package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"holdfast/internal/clock"
)

// Lock keeps other servers away from a SQLite file: each would believe that it is
// the only one to write to it. Commands do not take the lock.
//
// It is a lock of the kernel, so it ends with its process, on a file of its own:
// SQLite's locks of a process are lost when the process closes any descriptor of
// the database file. The lock file stays when the lock is released. To remove it
// would let two servers lock two files of one name.
type Lock struct{ f *os.File }

// Locks reports whether the lock is that of the SQLite file at path.
func (l *Lock) Locks(path string) bool { return l.f.Name() == lockFile(path) }

// lockSuffix is what the name of the lock file has besides that of the SQLite file.
const lockSuffix = ".lock"

// lockPatience is how long AcquireLock waits for a server that is ending, or for
// InUse, which takes the lock for a moment.
const lockPatience = time.Second

// InUseError says that another server holds the lock of a SQLite file.
type InUseError struct {
	Path   string
	Holder string // such as "process 4711"; "" when it is not known
}

func (e *InUseError) Error() string {
	by := "another server"
	if e.Holder != "" {
		by += " (" + e.Holder + ")"
	}
	return fmt.Sprintf("%s is in use by %s", e.Path, by)
}

// errLocked is the lock of another open file.
var errLocked = errors.New("locked")

// AcquireLock locks the SQLite file at path, which need not exist; its folder
// must. The error is an *InUseError while another Lock of the file is held, by
// this process or another one.
func AcquireLock(ctx context.Context, path string) (*Lock, error) {
	name := lockFile(path)
	for deadline := time.Now().Add(lockPatience); ; {
		l, err := tryLock(name)
		switch {
		case err == nil:
			l.describe()
			return l, nil
		case !errors.Is(err, errLocked):
			return nil, fmt.Errorf("cannot lock the database: %w", err)
		case time.Now().After(deadline) || !clock.Rest(ctx, 10*time.Millisecond):
			return nil, &InUseError{Path: path, Holder: holder(name)}
		}
	}
}

// InUse reports whether a server holds the lock of the SQLite file at path. If so,
// the error is an *InUseError; another one when the lock file cannot be used.
func InUse(path string) error {
	name := lockFile(path)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no server has used it
	}
	if err != nil {
		return err
	}
	err = lockShared(f)
	if errors.Is(err, errLocked) {
		err = &InUseError{Path: path, Holder: holder(name)}
	}
	return errors.Join(err, f.Close())
}

// Release releases the lock.
func (l *Lock) Release() error { return l.f.Close() }

// tryLock locks the lock file. Somebody may have removed or replaced it before it
// was locked; then the lock would keep nobody away.
func tryLock(name string) (*Lock, error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lockExclusive(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		locked, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if named, err := os.Stat(name); err == nil && os.SameFile(locked, named) {
			return &Lock{f}, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// lockFile is the lock file of a SQLite file, which may have several names.
func lockFile(path string) string {
	if file, err := filepath.EvalSymlinks(path); err == nil {
		return file + lockSuffix
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path + lockSuffix
}

// describe writes down who holds the lock. On a full disk nobody can read it, and
// the lock is held all the same.
func (l *Lock) describe() {
	host, err := os.Hostname()
	if err != nil || l.f.Truncate(0) != nil {
		return
	}
	_, _ = fmt.Fprintf(l.f, "%d %s\n", os.Getpid(), host)
}

// holder reads who holds the lock. Process IDs of another machine or container mean
// nothing without its name.
func holder(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	var pid int
	var host string
	if _, err := fmt.Fscanf(io.LimitReader(f, 300), "%d %s\n", &pid, &host); err != nil || !hostName.MatchString(host) {
		return ""
	}
	if own, err := os.Hostname(); err == nil && own == host {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("process %d on host %s", pid, host)
}

var hostName = regexp.MustCompile(`^[-.\w]+$`)
