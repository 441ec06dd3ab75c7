package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"holdfast/internal/buckets/blobs/filedriver"
	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
)

// processes removes temporary files left by killed servers. Each server locks a file in its data folder, whose name
// consists of the host and an ID. The server's temporary files contain the same ID. If another process can acquire the
// lock, the server is dead. A server looks only at its own data folder, so it never removes the files of a running
// server, even on a shared network folder. Other temporary files are removed after a day.
type processes struct {
	*Buckets
	// id is in the names of temporary files. folder has the lock files; lock is this process's, or nil.
	id     string
	folder string
	lock   *sqlitedb.Lock
}

// newProcessID is random, because process IDs repeat.
func newProcessID() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// newProcesses writes nothing; see register.
func newProcesses(s *Buckets, id string) *processes {
	return &processes{Buckets: s, id: id, folder: filepath.Join(s.maintenanceFolder(), "processes")}
}

// prefix returns the host part of lock file names. A data folder copied from another machine contains lock files of
// servers that may still run there.
func (p *processes) prefix() (string, error) {
	host, err := os.Hostname()
	return host + "+", err
}

// register locks this process's file. It must come before the process writes temporary files.
func (p *processes) register(ctx context.Context) error {
	prefix, err := p.prefix()
	if err != nil {
		return err
	}
	if err := durable.MakeFolder(p.folder); err != nil {
		return err
	}
	p.lock, err = sqlitedb.AcquireLock(ctx, filepath.Join(p.folder, prefix+p.id))
	return err
}

// unregister releases the lock. After a clean end no temporary file is left, so it also removes the lock file;
// otherwise another process removes the files later.
func (p *processes) unregister(clean bool) {
	if p.lock == nil {
		return
	}
	if prefix, err := p.prefix(); err == nil && clean {
		_ = os.Remove(filepath.Join(p.folder, prefix+p.id+lockExtension))
	}
	_ = p.lock.Release()
}

// lockExtension is the extension that sqlitedb.AcquireLock adds.
const lockExtension = ".lock"

// run sweeps at the start, and again every time.Duration; 0 means a minute.
func (p *processes) run(ctx context.Context, every time.Duration) {
	every = cmp.Or(every, time.Minute)
	for {
		if err := p.sweep(ctx); err != nil && ctx.Err() == nil {
			p.deps.Log.Warn("could not remove a killed server's temporary files", "error", err, "retry_in", every)
		}
		if !clock.Sleep(ctx, every) {
			return
		}
	}
}

// sweep removes the files of dead processes. It walks the nodes only if a process died.
func (p *processes) sweep(ctx context.Context) error {
	entries, err := os.ReadDir(p.folder)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	prefix, err := p.prefix()
	if err != nil {
		return err
	}
	dead := map[string]bool{}
	for _, e := range entries {
		id := strings.TrimSuffix(strings.TrimPrefix(e.Name(), prefix), lockExtension)
		if id != p.id && prefix+id+lockExtension == e.Name() && sqlitedb.InUse(filepath.Join(p.folder, prefix+id)) == nil {
			dead[filedriver.TemporaryOf(id)] = true
		}
	}
	if len(dead) == 0 {
		return nil
	}
	if err := p.remove(ctx, dead); err != nil {
		return err
	}
	for _, e := range entries {
		id := strings.TrimSuffix(strings.TrimPrefix(e.Name(), prefix), lockExtension)
		if dead[filedriver.TemporaryOf(id)] {
			err = errors.Join(err, os.Remove(filepath.Join(p.folder, e.Name())))
		}
	}
	return err
}

// remove removes temporary files with these prefixes on all folders. It does not look into cloud buckets, which have no
// temporary files.
func (p *processes) remove(ctx context.Context, prefixes map[string]bool) error {
	removed := 0
	for _, node := range p.nodes.scrubbed(false) {
		for f, err := range p.cluster.Walk(ctx, node, "") {
			if err != nil {
				return err
			}
			name := path.Base(f.Path)
			if i := strings.LastIndexByte(name, '-'); !f.Temporary || !prefixes[name[:i+1]] {
				continue
			}
			if err := p.cluster.Remove(ctx, f.Path, []string{node}); err != nil {
				return err
			}
			removed++
		}
	}
	if removed > 0 {
		p.deps.Log.Info("removed temporary files left by killed servers", "files", removed)
	}
	return nil
}
