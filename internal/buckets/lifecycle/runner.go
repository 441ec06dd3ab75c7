// Package lifecycle applies bucket lifecycle rules: it deletes expired objects and aborts incomplete uploads.
//
// S3 rounds days up to midnight UTC, so a bucket needs a run every day, and another one after its rules change. A run
// reads names with the rules' prefixes and deletes objects that had expired when the run began, if they are
// unchanged. Buckets take turns in short slices. Each slice stores its position, so any process can continue. A lease
// excludes other processes.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

const (
	leaseName   = "lifecycle"
	leaseTime   = time.Minute
	extendEvery = leaseTime / 6
	leasePoll   = 100 * time.Millisecond

	sliceTime  = time.Second      // after this, a slice ends, and others may work
	endTime    = 5 * time.Second  // to store progress during a shutdown
	dueBuckets = 100              // read at once
	retryAfter = 15 * time.Minute // after a failed step
)

// Store is all that a Runner needs from a store.
type Store interface {
	buckets.Lifecycles
	buckets.Leases
	List(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, q buckets.Query) (buckets.Page, error)
	ListUploads(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, q buckets.UploadQuery) (buckets.UploadPage, error)
	Bucket(ctx context.Context, owner buckets.AccountID, name string) (buckets.Bucket, error)
	ListVersions(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, q buckets.VersionQuery) (buckets.VersionPage, error)
	Delete(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, d buckets.Delete) (buckets.Deleted, error)
	Abort(ctx context.Context, u buckets.UploadKey, now buckets.Moment) error
}

// Options configure a Runner. All are required.
type Options struct {
	Store Store
	Clock clock.Clock // decides when garbage is removed
	Log   *slog.Logger

	// Monotonic ignores changes to the machine's clock.
	Monotonic clock.Clock

	// Observe is called after each slice.
	Observe func(buckets.LifecycleResult)
}

// Runner applies lifecycle rules. Use one per process.
type Runner struct {
	o      Options
	holder string
	guard  guard

	mu     sync.Mutex        // held during a slice
	after  buckets.BucketKey // last bucket visited
	leased time.Time         // when the lease was extended; zero if it is not held
}

// New returns a Runner. It starts nothing.
func New(o Options) *Runner { return &Runner{o: o, holder: "lifecycle " + buckets.NewUUID()} }

// Sweep applies due rules until limit objects and uploads are deleted. If fewer are deleted, no bucket is due, or
// another process is working.
func (r *Runner) Sweep(ctx context.Context, limit int) (n int, err error) {
	defer func() {
		if ctx.Err() != nil { // otherwise other processes would wait until the lease expires
			err = errors.Join(err, r.releaseAtEnd(ctx))
		}
	}()
	for n < limit {
		now, err := r.now(ctx)
		if err != nil {
			return n, err
		}
		due, err := r.o.Store.DueLifecycles(ctx, r.after, now, dueBuckets)
		if err != nil {
			return n, err
		}
		if len(due) == 0 && r.after == (buckets.BucketKey{}) {
			return n, r.release(ctx)
		}
		r.after = buckets.BucketKey{}
		for i := range due {
			if has, err := r.lease(ctx); err != nil || has.Holder != r.holder {
				return n, err
			}
			r.after = due[i].Key()
			done, err := r.slice(ctx, &due[i], slice{at: now, limit: limit - n})
			if n += done; err != nil && !errors.Is(err, buckets.ErrNoBucket) || n >= limit { // buckets may be deleted during the run
				return n, err
			}
		}
	}
	return n, nil
}

// Run applies the rules of a bucket, whether due or not. It calls progress after each slice.
func (r *Runner) Run(ctx context.Context, b *buckets.Bucket, progress func(buckets.LifecycleResult), wait func(string)) (_ buckets.LifecycleRun, err error) {
	if err := r.await(ctx, wait); err != nil {
		return buckets.LifecycleRun{}, err
	}
	defer func() { err = errors.Join(err, r.releaseAtEnd(ctx)) }()
	for first := true; ; first = false {
		now, err := r.now(ctx)
		if err != nil {
			return buckets.LifecycleRun{}, err
		}
		if has, err := r.lease(ctx); err != nil || has.Holder != r.holder {
			return buckets.LifecycleRun{}, errors.Join(err, errLeaseLost)
		}
		if _, err := r.slice(ctx, b, slice{at: now, limit: buckets.MaxPage, anew: first}); err != nil {
			return buckets.LifecycleRun{}, err
		}
		run, err := r.o.Store.LifecycleRun(ctx, b.Key())
		if err != nil {
			return run, err
		}
		if run.Error != "" {
			return run, errcode.New(errcode.Unavailable, run.Error)
		}
		if progress(run.LifecycleResult); run.Ended != 0 {
			return run, nil
		}
	}
}

// State returns the progress in a bucket.
func (r *Runner) State(ctx context.Context, b *buckets.Bucket) (buckets.LifecycleRun, error) {
	return r.o.Store.LifecycleRun(ctx, b.Key())
}

var errLeaseLost = errcode.New(errcode.Unavailable, "another process applies lifecycle rules: run the command again to continue")

// await waits for the lease, and calls wait once to say why.
func (r *Runner) await(ctx context.Context, wait func(string)) error {
	for said := false; ; said = true {
		has, err := r.lease(ctx)
		if err != nil || has.Holder == r.holder {
			return err
		}
		if !said {
			wait("another process applies lifecycle rules: " + has.Process)
		}
		if !clock.Sleep(ctx, leasePoll) {
			return ctx.Err()
		}
	}
}

// lease takes or extends the lease, at most every extendEvery.
func (r *Runner) lease(ctx context.Context) (buckets.Lease, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	host, _ := os.Hostname()
	l := buckets.Lease{Name: leaseName, Holder: r.holder, Process: fmt.Sprintf("process %d on %s", os.Getpid(), host), Left: leaseTime}
	if !r.leased.IsZero() && time.Since(r.leased) < extendEvery {
		return l, nil
	}
	asked := time.Now()
	has, err := r.o.Store.Lease(ctx, l)
	if r.leased = asked; err != nil || has.Holder != r.holder {
		r.leased = time.Time{}
	}
	return has, err
}

// release ends the lease, if it is held.
func (r *Runner) release(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leased.IsZero() {
		return nil
	}
	r.leased = time.Time{}
	return r.o.Store.EndLease(ctx, leaseName, r.holder)
}

// releaseAtEnd works even if ctx is done.
func (r *Runner) releaseAtEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	return r.release(ctx)
}

// now returns an error if the database clock may be wrong.
func (r *Runner) now(ctx context.Context) (buckets.Moment, error) {
	now, err := r.o.Store.Clock(ctx)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return now, r.guard.check(now, r.o.Monotonic())
}
