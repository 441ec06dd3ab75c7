package buckets

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"holdfast/internal/buckets/backend"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/db/rows"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// maintenanceFolder contains interrupted audits' state, and the locks.
func (s *Buckets) maintenanceFolder() string { return filepath.Join(s.deps.Data, Name+"-maintenance") }

// openMaintenance makes the service that repairs, scrubs, audits and drains, and connects it with the metrics.
func (s *Buckets) openMaintenance(st backend.Store) *maintenance.Service {
	return maintenance.NewService(maintenance.ServiceOptions{
		Options: maintenance.Options{Store: st, Nodes: s.nodes.service, Cluster: s.cluster, Clock: s.deps.Clock, Folder: s.maintenanceFolder()},
		Log:     s.deps.Log, Whole: s.deps.Whole, ReadOnly: rows.ErrReadOnly,
		ScrubEvery: s.cfg.ScrubEvery, ScrubRate: int64(s.cfg.ScrubRate), Scrubbed: func() []string { return s.nodes.scrubbed(s.cfg.ScrubCloud) },
		Repaired: func(node string) { s.metrics.repaired.WithLabelValues(node).Inc() },
		Read: func(node string, copies, bytes int64) {
			s.metrics.scrubbedCopies.WithLabelValues(node).Add(float64(copies))
			s.metrics.scrubbedBytes.WithLabelValues(node).Add(float64(bytes))
		},
		Changed: func() { s.metrics.health.forget() },
	})
}

// maintain runs an audit or a drain. Only one may run per database.
func (s *Buckets) maintain(ctx context.Context, progress operate.Progress, run func(context.Context, maintenance.Progress) error) error {
	folder := s.maintenanceFolder()
	if err := durable.MakeFolder(folder); err != nil {
		return err
	}
	lock, err := sqlitedb.AcquireLock(ctx, filepath.Join(folder, "one"))
	if inUse, ok := errors.AsType[*sqlitedb.InUseError](err); ok {
		return errcode.Newf(errcode.Conflict, "another audit or drain is running (%s): wait for its end", cmp.Or(inUse.Holder, "unknown process"))
	} else if err != nil {
		return err
	}
	show := func(step maintenance.Step, n, total int64) { progress.Step(string(step), n, total) }
	return errors.Join(run(ctx, maintenance.Progress{Show: show, Wait: progress.Wait}), lock.Release())
}
