package buckets

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"sync"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// maintain runs an audit or a drain. Only one may run at a time on a database, whatever machine it is on.
func (s *Buckets) maintain(ctx context.Context, progress operate.Progress, run func(context.Context, maintenance.Options) error) error {
	folder := filepath.Join(s.deps.Data, Name+"-maintenance")
	if err := durable.MakeFolder(folder); err != nil {
		return err
	}
	lock, err := sqlitedb.AcquireLock(ctx, filepath.Join(folder, "one"))
	if inUse, ok := errors.AsType[*sqlitedb.InUseError](err); ok {
		return errcode.Newf(errcode.Conflict, "another audit or drain runs (%s): wait until it has ended", cmp.Or(inUse.Holder, "unknown process"))
	} else if err != nil {
		return err
	}
	options := s.maintenance(filepath.Join(folder, "work"), progress)
	err = s.leased(ctx, folder, progress.Wait, func(ctx context.Context) error { return run(ctx, options) })
	return errors.Join(err, lock.Release())
}

// maintenance returns the options of an audit or a drain that reports its progress.
func (s *Buckets) maintenance(folder string, progress operate.Progress) maintenance.Options {
	var mu sync.Mutex
	return maintenance.Options{
		Store: s.store, Nodes: s.nodes.service, Cluster: s.cluster, Clock: s.deps.Clock, Folder: folder,
		Show: func(step maintenance.Step, n, total int64) {
			mu.Lock()
			defer mu.Unlock()
			progress.Step(string(step), n, total)
		},
		Waiting: func(expires buckets.Moment) {
			mu.Lock()
			defer mu.Unlock()
			progress.Wait("waiting until a backup has ended; one that was killed is waited for until " + expires.Time().Format("15:04:05 MST"))
		},
	}
}
