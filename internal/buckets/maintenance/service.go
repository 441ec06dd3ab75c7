package maintenance

import (
	"context"
	"iter"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
)

// ServiceOptions are the options of a Service.
type ServiceOptions struct {
	// Options has the Folder of all maintenance, which the processes of a data folder share. Show and Waiting are not used.
	Options
	Log *slog.Logger
	// Whole returns an error while the database has only a part of a copy.
	Whole func(ctx context.Context) error
	// ReadOnly is the error of a database that is read-only. It is not logged.
	ReadOnly error

	// ScrubEvery and ScrubRate are Every and Rate of the Scrubber, and Scrubbed returns its nodes. With an interval of 0
	// it is off.
	ScrubEvery time.Duration
	ScrubRate  int64
	Scrubbed   func() []string

	// Repaired, Read and Changed count the background work: a copy was repaired, copies of a node were scrubbed, and marks
	// of damaged copies have changed.
	Repaired func(node string)
	Read     func(node string, copies, bytes int64)
	Changed  func()
}

// Service keeps the copies of bodies good: it stores which are damaged, repairs and scrubs them, runs audits and drains,
// and copies them for backups. A process has one.
type Service struct {
	o       ServiceOptions
	id      string // of this process as a holder of leases
	framing framing
	reports *reporter
	wake    chan struct{}
	saying  sync.Mutex
	said    string // the error that was logged last
}

// NewService returns a service.
func NewService(o ServiceOptions) *Service {
	return &Service{o: o, id: backgroundHolder + buckets.NewUUID(), reports: newReporter(o.Store, o.Log), wake: make(chan struct{}, 1)}
}

// Progress shows people what an audit or a drain does.
type Progress struct {
	Show func(step Step, n, total int64) // as in Options
	Wait func(why string)                // called while it waits for other work
}

// Audit is the function Audit, while no other audit, drain or repair runs on the database. The caller has locked the
// folder.
func (s *Service) Audit(ctx context.Context, p Progress, ao AuditOptions, report func(Finding) error) (r Result, err error) {
	err = s.leased(ctx, p.Wait, func(ctx context.Context) (err error) {
		r, err = Audit(ctx, s.options("work", p), ao, report)
		return err
	})
	return r, err
}

// Drain is the function Drain, under the conditions of Audit.
func (s *Service) Drain(ctx context.Context, p Progress, node buckets.Node, do DrainOptions) (d Drained, err error) {
	err = s.leased(ctx, p.Wait, func(ctx context.Context) (err error) {
		d, err = Drain(ctx, s.options("work", p), node, do)
		return err
	})
	return d, err
}

// options returns the options of work in a subfolder.
func (s *Service) options(folder string, p Progress) Options {
	var mu sync.Mutex
	o := s.o.Options
	o.Folder = filepath.Join(o.Folder, folder)
	o.Show = func(step Step, n, total int64) {
		mu.Lock()
		defer mu.Unlock()
		p.Show(step, n, total)
	}
	o.Waiting = func(expires buckets.Moment) {
		mu.Lock()
		defer mu.Unlock()
		p.Wait("waiting until a backup has ended; one that was killed is waited for until " + expires.Time().Format("15:04:05 MST"))
	}
	return o
}

// Report logs and marks what a read has found about the copies of a body. A body without a good copy may have been
// deleted or moved meanwhile: the repair of its copies finds out, and reports it if it is lost.
func (s *Service) Report(f blobs.Finding) {
	switch f.Problem {
	case blobs.Lost:
		return
	case blobs.Unframed:
		s.framing.add(f.Reference)
		return
	}
	s.o.Log.Warn("bad copy of a body", "node", f.Node, "path", f.Path, "problem", string(f.Problem))
	d := buckets.NewDamage(buckets.Copy{Node: f.Node, Path: f.Path}, string(f.Problem), buckets.At(s.o.Clock()))
	if f.Reference.Owner != "" {
		d = d.Of(&f.Reference)
	}
	s.reports.note(d)
}

// StoreReports stores the reports that wait, which Start does regularly.
func (s *Service) StoreReports(ctx context.Context) error { return s.reports.flush(ctx) }

// Health is what is known about the copies on the nodes.
type Health struct {
	Damages []buckets.DamageCount
	Scrubs  []buckets.Scrub
}

// Health reads how many copies are damaged, and how far the scrubber is.
func (s *Service) Health(ctx context.Context) (h Health, err error) {
	if h.Damages, err = s.o.Store.CountMarks(ctx); err == nil {
		h.Scrubs, err = s.o.Store.Scrubs(ctx)
	}
	return h, err
}

// Damages returns the damaged copies that a query selects, in pages of its limit.
func (s *Service) Damages(ctx context.Context, q buckets.DamageQuery) iter.Seq2[buckets.Damage, error] {
	return func(yield func(buckets.Damage, error) bool) {
		for {
			page, err := s.o.Store.Marked(ctx, q)
			if err != nil {
				yield(buckets.Damage{}, err)
				return
			}
			for _, d := range page {
				if q.After = d.Copy; !yield(d, nil) {
					return
				}
			}
			if len(page) < q.Limit {
				return
			}
		}
	}
}

// Stored counts the bodies on a node.
type Stored struct{ Bodies, Bytes int64 }

// Bodies calls fn with every body that a row refers to, and its path, from one snapshot. It ends with an error of fn.
func (s *Service) Bodies(ctx context.Context, fn func(path string, r buckets.Reference) error) error {
	var failed error
	err := s.o.Store.References(ctx, func(r buckets.Reference) error {
		failed = fn(newBody(r).path, r)
		return failed
	})
	if failed != nil {
		return failed
	}
	return err
}

// CountBodies counts the bodies on each node. It reads all rows.
func (s *Service) CountBodies(ctx context.Context) (map[string]Stored, error) {
	nodes := map[string]Stored{}
	err := s.o.Store.References(ctx, func(r buckets.Reference) error {
		for _, id := range r.Sharks {
			n := nodes[id]
			nodes[id] = Stored{n.Bodies + 1, n.Bytes + r.Length}
		}
		return nil
	})
	return nodes, err
}
