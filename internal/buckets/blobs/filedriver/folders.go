package filedriver

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"holdfast/internal/durable"
)

// durableFolders limits the cached folders, at about 200 bytes each. It suffices for 64 buckets with 256 folders each.
const durableFolders = 16 << 10

// folders creates and syncs folders, and removes empty ones. A folder must not be removed between a goroutine finding
// it in the cache and adding a file.
type folders struct {
	root     *os.Root
	prefix   string
	removing sync.RWMutex
	durable  *lru.Cache[string, struct{}]

	mu    sync.Mutex
	syncs map[string]*syncGroup
}

// newFolders manages the folders below root. prefix begins the names of temporary files.
func newFolders(root *os.Root, prefix string) *folders {
	durable, err := lru.New[string, struct{}](durableFolders)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &folders{root: root, prefix: prefix, durable: durable, syncs: map[string]*syncGroup{}}
}

// create creates a temporary file in a folder, which it creates if necessary.
func (f *folders) create(folder string) (*temporary, error) {
	var t *temporary
	opened, err := f.in(folder, func(opened *os.Root) error {
		file, name, err := createTemporary(opened, f.prefix)
		t = &temporary{file: file, name: name}
		return err
	})
	if err != nil {
		return nil, err
	}
	t.folder = opened
	return t, nil
}

// attempts limits retries if another process removes the new folder because it is still empty.
const attempts = 10

// in calls add with an open folder while no goroutine removes folders. It retries if another process removed the
// folder.
func (f *folders) in(folder string, add func(opened *os.Root) error) (opened *os.Root, err error) {
	f.removing.RLock()
	defer f.removing.RUnlock()
	for range attempts {
		if opened, err = f.openFolder(folder); err == nil {
			if err = add(opened); err == nil {
				return opened, nil
			}
			_ = opened.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		f.forget(folder) // removed by another process or a person
	}
	return nil, err
}

// openFolder creates and opens a folder.
func (f *folders) openFolder(folder string) (*os.Root, error) {
	if err := f.ensure(folder); err != nil {
		return nil, err
	}
	return f.root.OpenRoot(folder)
}

// ensure durably creates a folder and its parents. An existing folder counts as durable only after its parent is
// synced, because it may have been created just now.
func (f *folders) ensure(folder string) error {
	if folder == "." {
		return nil
	}
	if _, known := f.durable.Get(folder); known {
		return nil
	}
	parent := path.Dir(folder)
	if err := f.ensure(parent); err != nil {
		return err
	}
	if err := f.root.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := f.syncByName(parent); err != nil {
		return err
	}
	f.durable.Add(folder, struct{}{})
	return nil
}

// forget drops a folder and its parents from the cache.
func (f *folders) forget(folder string) {
	for ; folder != "."; folder = path.Dir(folder) {
		f.durable.Remove(folder)
	}
}

// removeEmpty removes a folder and its parents as far as they are empty.
func (f *folders) removeEmpty(folder string) {
	for ; folder != "." && f.isEmpty(folder); folder = path.Dir(folder) {
		f.removing.Lock()
		f.durable.Remove(folder)
		err := f.root.Remove(folder) // fails unless empty
		f.removing.Unlock()
		if err != nil {
			return
		}
	}
}

// isEmpty looks without the lock first, because most folders are not empty.
func (f *folders) isEmpty(folder string) bool {
	opened, err := f.root.Open(folder)
	if err != nil {
		return false
	}
	defer func() { _ = opened.Close() }()
	_, err = opened.ReadDir(1)
	return errors.Is(err, io.EOF)
}

// syncGroup is a folder's running sync, and the callers waiting for the next one.
type syncGroup struct {
	next *syncBatch
}

// syncBatch is an fsync that several callers wait for.
type syncBatch struct {
	begin chan struct{}
	done  chan struct{}
	err   error
}

// sync syncs a folder. It shares an fsync among all callers that arrived before it began.
func (f *folders) sync(folder string, opened *os.Root) error {
	return f.group(folder, func() error { return durable.SyncIn(opened, ".") })
}

// syncByName is sync for a folder that is not open.
func (f *folders) syncByName(folder string) error {
	return f.group(folder, func() error { return durable.SyncIn(f.root, folder) })
}

// group runs sync, or shares the next run. A running fsync may have started before the caller's change, so it does not
// count.
func (f *folders) group(folder string, sync func() error) error {
	f.mu.Lock()
	g := f.syncs[folder]
	if g == nil {
		f.syncs[folder] = &syncGroup{}
		f.mu.Unlock()
		defer f.finish(folder)
		return sync()
	}
	batch := g.next
	if batch != nil {
		f.mu.Unlock()
		<-batch.done
		return batch.err
	}
	batch = &syncBatch{begin: make(chan struct{}), done: make(chan struct{})}
	g.next = batch
	f.mu.Unlock()
	<-batch.begin
	defer f.finish(folder)
	defer close(batch.done)
	batch.err = sync()
	return batch.err
}

// finish ends a sync and lets the waiting batch begin.
func (f *folders) finish(folder string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.syncs[folder]
	if g.next == nil {
		delete(f.syncs, folder)
		return
	}
	close(g.next.begin)
	g.next = nil
}

// readFolder reads all entries of a folder.
func readFolder(root *os.Root, folder string) ([]fs.DirEntry, error) {
	opened, err := root.Open(folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	return opened.ReadDir(-1)
}

// sortKey makes directory entries sort like the paths below them: directory "a" sorts as "a/", i.e. after "a,b" and
// "a-b".
func sortKey(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// isBefore reports whether all paths in the folder come at or before after.
func isBefore(folder, after string) bool {
	prefix := folder + "/"
	return prefix <= after && !strings.HasPrefix(after, prefix)
}
