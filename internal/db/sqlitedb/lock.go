package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"time"

	"holdfast/internal/clock"
)

// Lock keeps other servers, but not commands, away from a SQLite file.
//
// A kernel lock ends with its process. It is on a separate file, because closing any descriptor of the database file
// drops SQLite's locks. Release keeps the lock file; otherwise two servers could lock two files with the same name.
type Lock struct{ f *os.File }

// Locks reports whether l locks the SQLite file at path.
func (l *Lock) Locks(path string) bool { return l.f.Name() == lockFile(path) }

const lockSuffix = ".lock"

// lockPatience limits AcquireLock's wait for a server that is shutting down, or for InUse, which locks briefly.
const lockPatience = time.Second

// InUseError means that another server locked the SQLite file.
type InUseError struct {
	Path   string
	Holder string // e.g. "process 4711"; "" if unknown
}

func (e *InUseError) Error() string {
	by := "another server"
	if e.Holder != "" {
		by += " (" + e.Holder + ")"
	}
	return fmt.Sprintf("%s is in use by %s", e.Path, by)
}

var errLocked = errors.New("locked")

// AcquireLock locks the SQLite file at path, whose folder must exist. It returns an *InUseError if any process, even
// this one, holds the lock.
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
		case time.Now().After(deadline) || !clock.Sleep(ctx, 10*time.Millisecond):
			return nil, &InUseError{Path: path, Holder: holder(name)}
		}
	}
}

// InUse returns an *InUseError if a server locked the SQLite file, or another error if the lock file is unusable.
func InUse(path string) error {
	name := lockFile(path)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
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

// Release unlocks the file; the lock file stays.
func (l *Lock) Release() error { return l.f.Close() }

// tryLock locks the file name. It fails if the file was removed or replaced before it was locked, because such a lock
// is ineffective.
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

// lockFile returns the lock file's name. It is the same for all names of a SQLite file.
func lockFile(path string) string { return CanonicalPath(path) + lockSuffix }

// describe writes the process into the lock file, for InUseError. Errors do not matter.
func (l *Lock) describe() {
	host, err := os.Hostname()
	if err != nil || l.f.Truncate(0) != nil {
		return
	}
	_, _ = fmt.Fprintf(l.f, "%d %s\n", os.Getpid(), host)
}

// holder returns who wrote the lock file, or "".
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
