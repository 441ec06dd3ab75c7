package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/clock"
)

const (
	background      = "background" // folder for temporary files, and lease name
	backgroundLease = background
	// backgroundHolder is the holder prefix of a server's short lease. Commands wait for such a lease.
	backgroundHolder = background + " "
	backgroundEvery  = 10 * time.Second
	// scrubDelay is the delay between server start and scrubbing, and after a node failed, unless
	// buckets.scrub_interval is short.
	scrubDelay  = time.Minute
	repairBatch = 32     // marks per batch, so that a waiting command gets the lease soon
	mostMarks   = 10_000 // damaged copies that reads avoid
)

// silent is the Progress of background work.
var silent = Progress{Show: func(Step, int64, int64) {}, Wait: func(string) {}}

// Start stores reports of damaged copies and adds frames until ctx is done. While it holds the lease, it also repairs
// and scrubs. When Start returns, the damaged copies are known.
func (s *Service) Start(ctx context.Context) (wait func()) {
	_ = s.loadMarks(ctx) // watchMarks retries
	unframed := s.framing.begin()
	var jobs sync.WaitGroup
	jobs.Go(func() { s.addFrames(ctx, unframed) })
	jobs.Go(func() {
		s.reports.run(ctx, func() {
			s.nudge()
			s.o.Changed()
		})
	})
	jobs.Go(func() { s.watchMarks(ctx) })
	jobs.Go(func() {
		for {
			s.say(s.lead(ctx))
			if !clock.Sleep(ctx, backgroundEvery) {
				return
			}
		}
	})
	return jobs.Wait
}

// say logs a background error, but only when it changes.
func (s *Service) say(err error) {
	text := ""
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errLeaseLost) && !errors.Is(err, s.o.ReadOnly) {
		text = err.Error()
	}
	s.saying.Lock()
	defer s.saying.Unlock()
	if text != "" && text != s.said {
		s.o.Log.Warn("could not repair or scrub storage nodes", "error", err, "retry_in", backgroundEvery)
	}
	s.said = text
}

// watchMarks loads the marks regularly, because other processes add and remove them.
func (s *Service) watchMarks(ctx context.Context) {
	for {
		if err := s.loadMarks(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Debug("could not read which copies are damaged", "error", err)
		}
		if !clock.Sleep(ctx, backgroundEvery) {
			return
		}
	}
}

// loadMarks tells the Cluster which copies to read last.
func (s *Service) loadMarks(ctx context.Context) error {
	marks, err := s.o.Store.Marked(ctx, buckets.DamageQuery{Limit: mostMarks})
	if err != nil {
		return err
	}
	copies := make([]buckets.Copy, len(marks))
	for i := range marks {
		copies[i] = marks[i].Copy
	}
	s.o.Cluster.SetDamaged(copies)
	return nil
}

// nudge makes repairs look for due marks now.
func (s *Service) nudge() { signal(s.wake) }

// lease describes a lease for this process.
func (s *Service) lease(name string) (buckets.Lease, error) {
	host, err := os.Hostname()
	return buckets.Lease{Name: name, Holder: s.id, Process: fmt.Sprintf("the background work of process %d on %s", os.Getpid(), host), Left: leaseTime}, err
}

// lead runs repairs and scrubs while this process holds the background lease. It returns at once if another process
// holds it.
func (s *Service) lead(ctx context.Context) error {
	if err := s.o.Whole(ctx); err != nil {
		return nil //nolint:nilerr // rows that are not copied yet would look deleted
	}
	l, err := s.lease(backgroundLease)
	if err != nil {
		return err
	}
	if has, err := s.o.Store.Lease(ctx, l); err != nil || has.Holder != l.Holder {
		return err
	}
	return s.holding(ctx, l, func(ctx context.Context) error {
		if err := os.RemoveAll(filepath.Join(s.o.Folder, background)); err != nil { // left by a killed process
			return err
		}
		errs := make([]error, 2)
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var jobs sync.WaitGroup
		for i, job := range []func(context.Context) error{s.repairs, s.scrubs} {
			jobs.Go(func() {
				defer stop()
				errs[i] = job(ctx)
			})
		}
		jobs.Wait()
		return errors.Join(errs...)
	})
}

// exclusively runs fn under the maintenance lease, and waits for it as long as necessary.
func (s *Service) exclusively(ctx context.Context, fn func(context.Context) error) error {
	l, err := s.lease(leaseName)
	if err != nil {
		return err
	}
	for {
		has, err := s.o.Store.Lease(ctx, l)
		if err != nil {
			return err
		}
		if has.Holder == l.Holder {
			return s.holding(ctx, l, fn)
		}
		if !clock.Sleep(ctx, leasePoll) {
			return ctx.Err()
		}
	}
}

// repairs handles due marks, batch by batch, until ctx ends.
func (s *Service) repairs(ctx context.Context) error {
	for {
		again, err := s.RepairDue(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the server stops, or another process has the lease
		}
		if err != nil {
			return err
		}
		pause := backgroundEvery
		if again {
			pause = time.Second // lets a waiting command take the lease
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// RepairDue repairs a batch. It returns again = true if more copies may be due.
func (s *Service) RepairDue(ctx context.Context) (again bool, err error) {
	now := buckets.At(s.o.Clock())
	due, err := s.o.Store.DueMarks(ctx, now, repairBatch)
	if err != nil || len(due) == 0 {
		return false, err
	}
	if until, err := s.o.Store.Held(ctx, now); err != nil || until != 0 {
		return false, err // during a backup nothing may change
	}
	marks, err := s.withSiblings(ctx, due)
	if err != nil {
		return false, err
	}
	err = s.exclusively(ctx, func(ctx context.Context) error {
		return Repair(ctx, s.options(filepath.Join(background, "repair"), silent), marks, s.repaired)
	})
	if err != nil {
		return false, err
	}
	s.o.Changed()
	return len(due) == repairBatch, s.loadMarks(ctx)
}

// withSiblings adds the damage records of other copies of the same bodies, because these copies must not count as
// good.
func (s *Service) withSiblings(ctx context.Context, due []buckets.Damage) ([]buckets.Damage, error) {
	all, err := s.o.Store.Marked(ctx, buckets.DamageQuery{Limit: mostMarks})
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		same := func(d buckets.Damage) bool { return d.Path == m.Path && d.Node != m.Node }
		known := func(d buckets.Damage) bool { return d.Copy == m.Copy }
		if slices.ContainsFunc(due, same) && !slices.ContainsFunc(due, known) {
			due = append(due, m)
		}
	}
	return due, nil
}

// repaired logs and counts an outcome. A lost body is logged only when it becomes lost.
func (s *Service) repaired(d buckets.Damage, o Outcome) {
	log := func(level slog.Level, text string) {
		s.o.Log.Log(context.Background(), level, text, "node", d.Node, "path", d.Path, "problem", d.Problem)
	}
	switch {
	case o == WasRepaired:
		s.o.Repaired(d.Node)
		log(slog.LevelInfo, "repaired a body copy")
	case o == IsLost && d.State != buckets.Lost:
		log(slog.LevelError, "a body has no good copy left: holdfast check names the object")
	}
}

// scrubs runs rounds until ctx ends.
func (s *Service) scrubs(ctx context.Context) error {
	every := s.o.ScrubEvery
	if every == 0 {
		<-ctx.Done()
		return nil
	}
	pause := min(scrubDelay, every/60)
	scrubber := &Scrubber{
		Options: s.options(filepath.Join(background, "scrub"), silent), Every: every, Rate: s.o.ScrubRate, Exclusively: s.exclusively,
		Nodes: s.o.Scrubbed, Read: s.o.Read,
	}
	working := false
	for clock.Sleep(ctx, pause) {
		worked, err := scrubber.Round(ctx)
		if working && !worked {
			s.o.Changed()
		}
		working = worked
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the server stops, or another process has the lease
		}
		switch pause = time.Second; {
		case IsNodeError(err):
			pause = scrubDelay
		case err != nil:
			return err
		case worked:
			s.nudge()
		default:
			pause = min(scrubDelay, every/60)
		}
	}
	return nil
}
