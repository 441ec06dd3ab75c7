package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// slice limits a part of a run.
type slice struct {
	at    buckets.Moment // now, on the database clock
	limit int            // objects and uploads to delete, at least 1
	anew  bool           // begin a run even if none is due
}

// sliceRun is a slice while it works on a bucket.
type sliceRun struct {
	*Runner
	slice
	bucket *buckets.Bucket
	rules  *buckets.Lifecycle
	run    buckets.LifecycleRun
	done   buckets.LifecycleResult // counts in this slice
}

// slice continues or begins a bucket's run. A failed bucket is retried later, so that others get their turn.
func (r *Runner) slice(ctx context.Context, b *buckets.Bucket, of slice) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &sliceRun{Runner: r, slice: of, bucket: b, rules: &b.Settings.Lifecycle}
	if s.run, err = r.o.Store.LifecycleRun(ctx, b.Key()); err != nil {
		return 0, err
	}
	if !s.anew && !s.run.IsDue(s.rules, s.at) {
		return 0, nil // another process continued it
	}
	s.begin()
	began := time.Now()
	for s.run.Ended == 0 && err == nil && int(s.done.Deleted.Objects+s.done.Aborted) < s.limit && time.Since(began) < sliceTime {
		err = s.page(ctx)
	}
	return int(s.done.Deleted.Objects + s.done.Aborted), s.end(ctx, err)
}

// begin continues the run, or begins another if the rules changed, it ended, or anew is set.
func (s *sliceRun) begin() {
	if s.run.Rules == s.rules.Changed && s.run.Began != 0 && s.run.Ended == 0 && !s.anew {
		s.run.Error = ""
		return
	}
	previous := s.run.Previous
	if s.run.Ended != 0 {
		last := s.run.LifecycleResult
		previous = &last
	}
	s.run = buckets.LifecycleRun{Rules: s.rules.Changed, LifecycleResult: buckets.LifecycleResult{Began: s.at}, Previous: previous}
}

// end stores the progress. An error of the bucket postpones it by retryAfter; an error of the database only keeps the
// position.
func (s *sliceRun) end(ctx context.Context, err error) error {
	if errors.Is(err, buckets.ErrNoBucket) {
		return err
	}
	stopped := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	switch {
	case err != nil && (errcode.Is(err, errcode.Unavailable) || stopped):
		s.report()
		return errors.Join(err, s.o.Store.SetLifecycleRun(ctx, s.bucket.Key(), s.run)) // the database failed, not the bucket
	case err != nil:
		s.o.Log.Error("could not apply a bucket's lifecycle rules", "account", s.bucket.Owner, "bucket", s.bucket.Name, "error", err, "retry_in", retryAfter)
		s.run.Error, s.run.Due = errcode.Message(err), s.at.Add(retryAfter)
	case s.run.Ended != 0:
		s.run.Previous = nil
	}
	s.report()
	return s.o.Store.SetLifecycleRun(ctx, s.bucket.Key(), s.run)
}

// report logs and counts the slice.
func (s *sliceRun) report() {
	s.o.Observe(s.done)
	if s.done.Deleted.Objects+s.done.Aborted == 0 {
		return
	}
	for _, rule := range slices.Sorted(maps.Keys(s.done.ByRule)) {
		c := s.done.ByRule[rule]
		s.o.Log.LogAttrs(context.Background(), slog.LevelInfo, "lifecycle rule deleted objects",
			slog.String("account", string(s.bucket.Owner)), slog.String("bucket", s.bucket.Name), slog.String("rule", rule),
			slog.Int64("objects", c.Objects), slog.Int64("bytes", c.Bytes), slog.Int64("uploads", c.Uploads))
	}
}

// page reads the next page of the current phase and prefix, or ends the run.
func (s *sliceRun) page(ctx context.Context) error {
	phases := []struct {
		prefixes []string
		page     func(ctx context.Context, prefix string) error
	}{
		buckets.LifecycleObjects:  {s.rules.ObjectPrefixes(s.run.Began), s.objects},
		buckets.LifecycleVersions: {s.rules.VersionPrefixes(), s.versions},
		buckets.LifecycleUploads:  {s.rules.UploadPrefixes(), s.uploads},
	}
	for int(s.run.Phase) < len(phases) {
		if of := phases[s.run.Phase]; s.run.Prefix < len(of.prefixes) {
			return of.page(ctx, of.prefixes[s.run.Prefix])
		}
		s.run.LifecyclePosition = buckets.LifecyclePosition{Phase: s.run.Phase + 1}
	}
	ended, err := s.o.Store.Clock(ctx)
	if err != nil {
		return err
	}
	s.run.Ended, s.run.Due, s.run.LifecyclePosition = ended, s.rules.NextRun(s.run.Began), buckets.LifecyclePosition{}
	return nil
}

// next continues with the next prefix.
func (s *sliceRun) next() {
	s.run.LifecyclePosition = buckets.LifecyclePosition{Phase: s.run.Phase, Prefix: s.run.Prefix + 1}
}

// objects deletes expired current objects.
func (s *sliceRun) objects(ctx context.Context, prefix string) error {
	q := buckets.Query{Prefix: prefix, Start: buckets.Position{Name: s.run.After}, Limit: min(s.left(), buckets.MaxPage), Bytes: pageBytes}
	page, err := s.o.Store.List(ctx, s.bucket.Owner, s.bucket.ID, q)
	if err != nil {
		return err
	}
	var expired []*buckets.Object
	var by []string
	for i := range page.Entries {
		o := page.Entries[i].Object
		if e, ok := s.rules.Expiry(o); ok && e.At <= s.run.Began {
			expired, by = append(expired, o), append(by, e.Rule.ID)
		}
	}
	if len(expired) > 0 {
		deleted, err := s.o.Store.Expire(ctx, s.bucket.Owner, s.bucket.BucketRef, buckets.Expired{Objects: expired, Now: buckets.At(s.o.Clock()), Notice: s.notice()})
		if err != nil {
			return err
		}
		for i, o := range expired {
			if deleted[i] {
				s.add(by[i], buckets.Counts{Usage: buckets.Usage{Objects: 1, Bytes: o.Length}})
			}
		}
	}
	s.read(len(page.Entries))
	if !page.More || len(page.Entries) == 0 {
		s.next()
		return nil
	}
	s.run.After = page.Entries[len(page.Entries)-1].Object.Name
	return nil
}

// notice returns the Notice for deletes, nil if the bucket publishes no events.
func (s *sliceRun) notice() *buckets.Notice {
	if s.bucket.Settings.Notifications.IsZero() {
		return nil
	}
	return &buckets.Notice{Owner: s.bucket.Owner, Bucket: s.bucket.BucketRef, Rules: &s.bucket.Settings.Notifications, Expired: true}
}

const pageBytes = 1 << 20 // memory per page

// uploads aborts old uploads.
func (s *sliceRun) uploads(ctx context.Context, prefix string) error {
	q := buckets.UploadQuery{Prefix: prefix, After: s.run.After, AfterID: s.run.AfterID, Limit: min(s.left(), buckets.MaxPage), Bytes: pageBytes}
	page, err := s.o.Store.ListUploads(ctx, s.bucket.Owner, s.bucket.ID, q)
	if err != nil {
		return err
	}
	for i := range page.Uploads {
		u := &page.Uploads[i]
		e, ok := s.rules.AbortOf(u)
		if !ok || e.At > s.run.Began {
			continue
		}
		err := s.o.Store.Abort(ctx, buckets.UploadKey{Owner: s.bucket.Owner, Bucket: s.bucket.BucketRef, Name: u.Name, ID: u.ID}, buckets.At(s.o.Clock()))
		switch {
		case err == nil:
			s.add(e.Rule.ID, buckets.Counts{Uploads: 1})
		case !errors.Is(err, buckets.ErrNoUpload): // completed or aborted since
			return err
		}
	}
	s.read(len(page.Uploads))
	if !page.More {
		s.next()
		return nil
	}
	s.run.After, s.run.AfterID = page.After, page.AfterID
	return nil
}

// left returns how many deletes are allowed in this slice.
func (s *sliceRun) left() int { return s.limit - int(s.done.Deleted.Objects+s.done.Aborted) }

// add counts a delete for its rule.
func (s *sliceRun) add(rule string, c buckets.Counts) {
	s.run.Add(rule, c)
	s.done.Add(rule, c)
}

// read counts rows that were read.
func (s *sliceRun) read(n int) {
	s.run.Read += int64(n)
	s.done.Read += int64(n)
}
