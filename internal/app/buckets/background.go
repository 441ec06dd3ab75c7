package buckets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/clock"
	"holdfast/internal/db/rows"
)

const (
	// backgroundLease is the lease of the process that repairs and scrubs.
	backgroundLease = "background"
	// backgroundHolder begins the holder of a lease that a server has for a short time.
	// Commands wait for it.
	backgroundHolder = "background "
	// backgroundEvery is how often a server looks for damaged copies, and for the lease.
	backgroundEvery = 10 * time.Second
	// scrubDelay is how long after the start of a server a pass begins or continues; with a
	// short buckets.scrub_interval less.
	scrubDelay = time.Minute
	// repairBatch is how many copies are repaired before commands get their turn.
	repairBatch = 32
	// mostMarks is how many marks a process knows, so that reads use other copies first.
	mostMarks = 10_000
)

// background repairs damaged copies and scrubs nodes. One process does it at a time.
type background struct {
	*Buckets
	id     string // of this process as a holder of leases
	wake   chan struct{}
	saying sync.Mutex
	said   string // the error that was logged last
}

func newBackground(s *Buckets) *background {
	return &background{Buckets: s, id: backgroundHolder + buckets.NewUUID(), wake: make(chan struct{}, 1)}
}

// run works until ctx ends.
func (b *background) run(ctx context.Context) {
	var jobs sync.WaitGroup
	jobs.Go(func() { b.watchMarks(ctx) })
	jobs.Go(func() {
		for {
			b.say(b.lead(ctx))
			if !clock.Sleep(ctx, backgroundEvery) {
				return
			}
		}
	})
	jobs.Wait()
}

// say logs an error once as long as it stays the same.
func (b *background) say(err error) {
	text := ""
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, rows.ErrReadOnly) {
		text = err.Error()
	}
	b.saying.Lock()
	defer b.saying.Unlock()
	if text != "" && text != b.said {
		b.deps.Log.Warn("could not repair or scrub storage nodes", "error", err, "retry_in", backgroundEvery)
	}
	b.said = text
}

// watchMarks keeps the cluster informed about the marks of all processes.
func (b *background) watchMarks(ctx context.Context) {
	for {
		b.metrics.know(b.cluster.Nodes())
		if err := b.loadMarks(ctx); err != nil && ctx.Err() == nil {
			b.deps.Log.Debug("could not read which copies are damaged", "error", err)
		}
		if !clock.Sleep(ctx, backgroundEvery) {
			return
		}
	}
}

func (b *background) loadMarks(ctx context.Context) error {
	marks, err := b.store.Marked(ctx, buckets.DamageQuery{Limit: mostMarks})
	if err != nil {
		return err
	}
	copies := make([]buckets.Copy, len(marks))
	for i := range marks {
		copies[i] = marks[i].Copy
	}
	b.cluster.SetDamaged(copies)
	return nil
}

// nudge lets the process that has the lease look for damaged copies at once.
func (b *background) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// lease returns a lease as this process asks for it.
func (b *background) lease(name string) (buckets.Lease, error) {
	host, err := os.Hostname()
	return buckets.Lease{Name: name, Holder: b.id, Process: fmt.Sprintf("the background work of process %d on %s", os.Getpid(), host), Left: leaseTime}, err
}

// lead works while this process has the lease, if it gets it now.
func (b *background) lead(ctx context.Context) error {
	if err := b.deps.Whole(ctx); err != nil {
		return nil //nolint:nilerr // rows that are not copied yet would look deleted
	}
	l, err := b.lease(backgroundLease)
	if err != nil {
		return err
	}
	if has, err := b.store.Lease(ctx, l); err != nil || has.Holder != l.Holder {
		return err
	}
	return b.holding(ctx, l, func(ctx context.Context) error {
		folder := filepath.Join(b.deps.Data, Name+"-maintenance", "background")
		if err := os.RemoveAll(folder); err != nil { // of a process that was killed
			return err
		}
		errs := make([]error, 2)
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var jobs sync.WaitGroup
		for i, job := range []func(context.Context, string) error{b.repairs, b.scrubs} {
			jobs.Go(func() {
				defer stop() // after an error, the lease is given back
				errs[i] = job(ctx, filepath.Join(folder, []string{"repair", "scrub"}[i]))
			})
		}
		jobs.Wait()
		return errors.Join(errs...)
	})
}

// holding runs fn while a lease that this process has is extended, and then ends it.
func (b *background) holding(ctx context.Context, l buckets.Lease, fn func(context.Context) error) error {
	held, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.extendLease(held, l, cancel)
	}()
	err := fn(held)
	cancel(nil)
	<-ended
	ending, done := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer done()
	_ = b.store.EndLease(ending, l.Name, l.Holder) // otherwise it expires
	return err
}

// exclusively runs fn while no audit or drain runs. It waits for those that do.
func (b *background) exclusively(ctx context.Context, fn func(context.Context) error) error {
	l, err := b.lease(leaseName)
	if err != nil {
		return err
	}
	for {
		has, err := b.store.Lease(ctx, l)
		if err != nil {
			return err
		}
		if has.Holder == l.Holder {
			return b.holding(ctx, l, fn)
		}
		if !clock.Sleep(ctx, leasePoll) {
			return ctx.Err()
		}
	}
}

// repairs rewrites damaged copies when their next attempt is due.
func (b *background) repairs(ctx context.Context, folder string) error {
	for {
		again, err := b.repairDue(ctx, folder)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the server stops, or another process has the lease
		}
		if err != nil {
			return err
		}
		pause := backgroundEvery
		if again {
			pause = time.Second // a command that waits for the lease gets it meanwhile
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-b.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// repairDue repairs a batch of copies, and reports whether there may be more.
func (b *background) repairDue(ctx context.Context, folder string) (again bool, err error) {
	now := buckets.At(b.deps.Clock())
	due, err := b.store.DueMarks(ctx, now, repairBatch)
	if err != nil || len(due) == 0 {
		return false, err
	}
	if until, err := b.store.Held(ctx, now); err != nil || until != 0 {
		return false, err // a backup runs, so nothing may be changed
	}
	marks, err := b.withSiblings(ctx, due)
	if err != nil {
		return false, err
	}
	err = b.exclusively(ctx, func(ctx context.Context) error {
		return maintenance.Repair(ctx, b.maintenance(folder, nil), marks, b.repaired)
	})
	if err != nil {
		return false, err
	}
	b.metrics.forget()
	return len(due) == repairBatch, b.loadMarks(ctx)
}

// withSiblings adds the marks of the other copies of the same bodies: they must not be
// taken for good.
func (b *background) withSiblings(ctx context.Context, due []buckets.Damage) ([]buckets.Damage, error) {
	all, err := b.store.Marked(ctx, buckets.DamageQuery{Limit: mostMarks})
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

// repaired counts and logs the result of an attempt to repair a copy.
func (b *background) repaired(d buckets.Damage, o maintenance.Outcome) {
	log := func(level slog.Level, text string) {
		b.deps.Log.Log(context.Background(), level, text, "node", d.Node, "path", d.Path, "problem", d.Problem)
	}
	switch {
	case o == maintenance.WasRepaired:
		b.metrics.repaired.WithLabelValues(d.Node).Inc()
		log(slog.LevelInfo, "repaired a copy of a body")
	case o == maintenance.IsLost && d.State != buckets.Lost:
		log(slog.LevelError, "no good copy of a body is left: holdfast check names the object")
	}
}

// scrubs reads the copies on the nodes, until ctx ends.
func (b *background) scrubs(ctx context.Context, folder string) error {
	every := b.cfg.ScrubEvery
	if every == 0 {
		<-ctx.Done()
		return nil
	}
	pause := min(scrubDelay, every/60)
	o := b.maintenance(folder, nil)
	scrubber := &maintenance.Scrubber{
		Options: o, Every: every, Rate: int64(b.cfg.ScrubRate), Exclusively: b.exclusively,
		Nodes: func() []string { return b.nodes.scrubbed(b.cfg.ScrubCloud) },
		Read: func(node string, copies, bytes int64) {
			b.metrics.scrubbedCopies.WithLabelValues(node).Add(float64(copies))
			b.metrics.scrubbedBytes.WithLabelValues(node).Add(float64(bytes))
		},
	}
	for clock.Sleep(ctx, pause) {
		worked, err := scrubber.Round(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the server stops, or another process has the lease
		}
		switch pause = time.Second; {
		case maintenance.IsNodeError(err):
			pause = scrubDelay
		case err != nil:
			return err
		case worked:
			b.nudge()
		default:
			pause = min(scrubDelay, every/60)
		}
	}
	return nil
}

// scrubbed returns the nodes that are scrubbed: folders, and with cloud also those of cloud
// providers.
func (n *nodes) scrubbed(cloud bool) (ids []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, o := range n.open {
		if u, err := url.Parse(o.url); err == nil && (cloud || u.Scheme == "file") {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
