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

// Lock prevents other servers from using a SQLite file, because a server relies on being
// the only one. Commands do not take the lock.
//
// It is a kernel lock, so it ends with its process. It is on a separate file, because a
// process that closes any descriptor of the database file loses SQLite's locks. Release
// does not remove the lock file; otherwise two servers could lock two files of one name.
type Lock struct{ f *os.File }

// Locks reports whether the lock is that of the SQLite file at path.
func (l *Lock) Locks(path string) bool { return l.f.Name() == lockFile(path) }

// lockSuffix is the suffix of the lock file.
const lockSuffix = ".lock"

// lockPatience is how long AcquireLock waits for a server that is shutting down, or for
// InUse, which holds the lock briefly.
const lockPatience = time.Second

// InUseError means that another server has the lock of a SQLite file.
type InUseError struct {
	Path   string
	Holder string // such as "process 4711"; "" if unknown
}

func (e *InUseError) Error() string {
	by := "another server"
	if e.Holder != "" {
		by += " (" + e.Holder + ")"
	}
	return fmt.Sprintf("%s is in use by %s", e.Path, by)
}

// errLocked means that another open file has the lock.
var errLocked = errors.New("locked")

// AcquireLock locks the SQLite file at path. The file need not exist, but its folder must.
// It returns an *InUseError if this process or another one has the lock.
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

// InUse returns an *InUseError if a server has the lock of the SQLite file at path, and
// another error if the lock file cannot be used.
func InUse(path string) error {
	name := lockFile(path)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no server has used the file
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

// tryLock locks the lock file. It fails if the file was removed or replaced before it was
// locked, because then the lock has no effect.
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

// lockFile returns the lock file of a SQLite file, which may have several names.
func lockFile(path string) string { return CanonicalPath(path) + lockSuffix }

// describe writes the holder into the lock file. It ignores errors such as a full disk,
// because the text is only for messages.
func (l *Lock) describe() {
	host, err := os.Hostname()
	if err != nil || l.f.Truncate(0) != nil {
		return
	}
	_, _ = fmt.Fprintf(l.f, "%d %s\n", os.Getpid(), host)
}

// holder reads the holder from the lock file. For a process on another machine or in
// another container it includes the host name.
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
