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

// ServiceOptions configures a Service.
type ServiceOptions struct {
	// Folder is shared by all maintenance processes of a data folder. Show and Waiting are not used.
	Options
	Log *slog.Logger
	// Whole returns an error while the database is an incomplete copy.
	Whole func(ctx context.Context) error
	// ReadOnly is the error of a read-only database. It is not logged.
	ReadOnly error

	// ScrubEvery and ScrubRate configure the Scrubber; ScrubEvery is 0 for no scrubbing.
	ScrubEvery time.Duration
	ScrubRate  int64
	Scrubbed   func() []string // nodes to scrub, asked before each round

	// Called when a copy was repaired, when copies were scrubbed, and when damage records changed.
	Repaired func(node string)
	Read     func(node string, copies, bytes int64)
	Changed  func()
}

// Service records, repairs and scrubs damaged copies, runs audits and drains, and copies bodies for backups. Use one
// per process.
type Service struct {
	o       ServiceOptions
	id      string // lease holder
	framing framing
	reports *reporter
	wake    chan struct{}
	saying  sync.Mutex
	said    string // last background error that was logged
}

// NewService returns a Service; Start begins background work.
func NewService(o ServiceOptions) *Service {
	return &Service{o: o, id: backgroundHolder + buckets.NewUUID(), reports: newReporter(o.Store, o.Log), wake: make(chan struct{}, 1)}
}

// Progress lets a command show its progress. Calls do not overlap.
type Progress struct {
	Show func(step Step, n, total int64)
	Wait func(why string) // why the command waits
}

// Audit requires that the caller has locked the folder.
func (s *Service) Audit(ctx context.Context, p Progress, ao AuditOptions, report func(Finding) error) (r Result, err error) {
	err = s.leased(ctx, p.Wait, func(ctx context.Context) (err error) {
		r, err = Audit(ctx, s.options("work", p), ao, report)
		return err
	})
	return r, err
}

// Drain requires that the caller has locked the folder.
func (s *Service) Drain(ctx context.Context, p Progress, node buckets.Node, do DrainOptions) (d Drained, err error) {
	err = s.leased(ctx, p.Wait, func(ctx context.Context) (err error) {
		d, err = Drain(ctx, s.options("work", p), node, do)
		return err
	})
	return d, err
}

// options gives a job its own folder and serializes its progress.
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
		p.Wait("waiting for a backup to end; if it was killed, until " + expires.Time().Format("15:04:05 MST"))
	}
	return o
}

// Report logs a finding and adds a damage record. A body without a good copy may have been deleted or moved since;
// only repair reports it as lost.
func (s *Service) Report(f blobs.Finding) {
	switch f.Problem {
	case blobs.Lost:
		return
	case blobs.Unframed:
		s.framing.add(f.Reference)
		return
	}
	s.o.Log.Warn("bad body copy", "node", f.Node, "path", f.Path, "problem", string(f.Problem))
	d := buckets.NewDamage(buckets.Copy{Node: f.Node, Path: f.Path}, string(f.Problem), buckets.At(s.o.Clock()))
	if f.Reference.Owner != "" {
		d = d.Of(&f.Reference)
	}
	s.reports.note(d)
}

// StoreReports stores pending reports now.
func (s *Service) StoreReports(ctx context.Context) error { return s.reports.flush(ctx) }

// Health is the state of copies.
type Health struct {
	Damages []buckets.DamageCount
	Scrubs  []buckets.Scrub
}

// Health reads counts for metrics and the console.
func (s *Service) Health(ctx context.Context) (h Health, err error) {
	if h.Damages, err = s.o.Store.CountMarks(ctx); err == nil {
		h.Scrubs, err = s.o.Store.Scrubs(ctx)
	}
	return h, err
}

// Damages iterates over all records, in pages of q.Limit.
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

// Stored counts bodies on a node.
type Stored struct{ Bodies, Bytes int64 }

// Bodies calls fn with every referenced body, from one snapshot.
func (s *Service) Bodies(ctx context.Context, fn func(path string, r buckets.Reference) error) error {
	var failed error
	err := references(ctx, s.o.Store, func(r buckets.Reference) error {
		failed = fn(newBody(r).path, r)
		return failed
	})
	if failed != nil {
		return failed
	}
	return err
}

// CountBodies counts the bodies per node. It reads all rows.
func (s *Service) CountBodies(ctx context.Context) (map[string]Stored, error) {
	nodes := map[string]Stored{}
	err := references(ctx, s.o.Store, func(r buckets.Reference) error {
		for _, id := range r.Sharks {
			n := nodes[id]
			nodes[id] = Stored{n.Bodies + 1, n.Bytes + r.Length}
		}
		return nil
	})
	return nodes, err
}
