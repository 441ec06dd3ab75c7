package certificates

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/caddyserver/certmagic"

	"holdfast/internal/durable"
)

// storage keeps values in memory if the disk is full or read-only, so that the server can use an unsaved certificate.
// Locks are in memory, because only one process uses the folder.
type storage struct {
	folder string
	put    func(name string, value []byte) error // put, or a test's function

	mu      sync.Mutex
	unsaved map[string][]byte // by key
	failure error             // why something is unsaved
	locks   map[string]chan struct{}
}

func newStorage(folder string) *storage {
	return &storage{folder: folder, put: put, unsaved: map[string][]byte{}, locks: map[string]chan struct{}{}}
}

// file returns the file for a key.
func (s *storage) file(key string) (string, error) {
	local := filepath.FromSlash(key)
	if err := durable.CheckName(local); err != nil {
		return "", fmt.Errorf("the certificates folder: %w", err)
	}
	return filepath.Join(s.folder, local), nil
}

// isChallenge matches keys whose values end with the process.
func isChallenge(key string) bool { return strings.Contains(key, "/challenge_tokens/") }

// Store never fails: a certificate that cannot be saved is still used.
func (s *storage) Store(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isChallenge(key) {
		s.unsaved[key] = value
		return nil
	}
	if err := s.write(key, value); err != nil {
		s.unsaved[key], s.failure = slices.Clone(value), err
		return nil
	}
	delete(s.unsaved, key)
	return nil
}

// write writes a value durably.
func (s *storage) write(key string, value []byte) error {
	name, err := s.file(key)
	if err != nil {
		return err
	}
	return s.put(name, value)
}

// put creates the folder if needed.
func put(name string, value []byte) error {
	if err := durable.MakeFolder(filepath.Dir(name)); err != nil {
		return err
	}
	return durable.Replace(name, durable.Bytes(value))
}

// save writes values that are only in memory.
func (s *storage) save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = nil
	for key, value := range s.unsaved {
		if isChallenge(key) {
			continue
		}
		if err := s.write(key, value); err != nil {
			s.failure = err
			continue
		}
		delete(s.unsaved, key)
	}
	return s.failure
}

// unsavedBecause returns why a value is only in memory, or nil.
func (s *storage) unsavedBecause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// Load prefers an unsaved value. The error for a missing value wraps fs.ErrNotExist, as certmagic requires.
func (s *storage) Load(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value, ok := s.unsaved[key]; ok {
		return slices.Clone(value), nil
	}
	name, err := s.file(key)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// Delete also deletes all keys below the key. A missing key is no error.
func (s *storage) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.unsaved, func(k string, _ []byte) bool { return isBelow(k, key) })
	name, err := s.file(key)
	if err != nil {
		return err
	}
	err = os.RemoveAll(name)
	if errors.Is(err, syscall.EROFS) { // also for a missing file
		if _, missing := os.Lstat(name); errors.Is(missing, fs.ErrNotExist) {
			return nil
		}
	}
	return err
}

// isBelow reports whether a key is prefix or below it.
func isBelow(key, prefix string) bool { return key == prefix || strings.HasPrefix(key, prefix+"/") }

// Exists also reports keys that have others below them.
func (s *storage) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// Stat returns no modification time for unsaved values.
func (s *storage) Stat(_ context.Context, key string) (certmagic.KeyInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, value := range s.unsaved {
		if isBelow(k, key) {
			return certmagic.KeyInfo{Key: key, Size: int64(len(value)), IsTerminal: k == key}, nil
		}
	}
	name, err := s.file(key)
	if err != nil {
		return certmagic.KeyInfo{}, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return certmagic.KeyInfo{}, err
	}
	return certmagic.KeyInfo{Key: key, Modified: info.ModTime(), Size: info.Size(), IsTerminal: !info.IsDir()}, nil
}

// List returns the keys below prefix, with folders, sorted. Without recursive it returns the next level only.
func (s *storage) List(_ context.Context, prefix string, recursive bool) (keys []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, err := s.file(prefix)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for key := range s.unsaved {
		if rest, below := strings.CutPrefix(key, prefix+"/"); below {
			first, _, deeper := strings.Cut(rest, "/")
			if recursive || !deeper {
				names[key] = true
			}
			if deeper {
				names[path.Join(prefix, first)] = true
			}
		}
	}
	err = filepath.WalkDir(name, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == name {
			return err
		}
		rest, err := filepath.Rel(name, at)
		if err != nil {
			return err
		}
		names[path.Join(prefix, filepath.ToSlash(rest))] = true
		if d.IsDir() && !recursive {
			return fs.SkipDir
		}
		return nil
	})
	if len(names) > 0 && errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return slices.Sorted(maps.Keys(names)), err
}

// Lock waits for the lock until ctx ends.
func (s *storage) Lock(ctx context.Context, name string) error {
	s.mu.Lock()
	lock, ok := s.locks[name]
	if !ok {
		lock = make(chan struct{}, 1)
		s.locks[name] = lock
	}
	s.mu.Unlock()
	select {
	case lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock returns an error if the lock is not held.
func (s *storage) Unlock(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.locks[name]:
		return nil
	default:
		return fmt.Errorf("the lock %s is not held", name)
	}
}

var _ certmagic.Storage = (*storage)(nil)
