package buckets

import (
	"context"
	"errors"
	"time"
)

// claimTime is the lifetime of a claim. Overlapping claims are harmless, because removing bodies is idempotent.
const claimTime = 10 * time.Minute

// releaseTime limits how long the collector records freed bodies during a shutdown.
const releaseTime = 5 * time.Second

// Collect removes objects that were deleted at or before a time, at most limit, and returns how many it removed, also
// with an error. Fewer than limit mean that none is left but those that failed, which are retried after their claim
// expires.
func (s *Service) Collect(ctx context.Context, before time.Time, limit int) (n int, err error) {
	now := s.clock()
	claim := Claim{ID: NewUUID(), Before: At(before), Now: At(now), Expires: At(now.Add(claimTime)), Limit: limit}
	garbage, err := s.store.Claim(ctx, claim)
	if err != nil {
		return 0, err
	}
	n, err = s.free(ctx, claim.ID, garbage)
	if ctx.Err() != nil && n < len(garbage) {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer cancel()
		err = errors.Join(err, s.store.Unclaim(ending, claim.ID))
	}
	return n, err
}

// free removes bodies and then their rows. It joins all errors: garbage that fails keeps its claim, and n counts the
// freed rows.
func (s *Service) free(ctx context.Context, claim string, garbage []Garbage) (n int, err error) {
	var removed []Garbage
	var failed []error
	for i := range garbage {
		if ctx.Err() != nil {
			failed = append(failed, ctx.Err())
			break
		}
		if err := s.removeBodies(ctx, &garbage[i]); err != nil {
			failed = append(failed, err)
			continue
		}
		removed = append(removed, garbage[i])
	}
	if len(removed) > 0 {
		if ctx.Err() != nil {
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
			defer cancel()
			ctx = ending
		}
		n, err = s.store.Remove(ctx, claim, removed)
		failed = append(failed, err)
	}
	return n, errors.Join(failed...)
}

// Waiting reports garbage by state. Garbage deleted after before is in its grace period.
func (s *Service) Waiting(ctx context.Context, before, now time.Time) (w Waiting, err error) {
	if w, err = s.store.Waiting(ctx, At(before), At(now)); err == nil && w.Rows > 0 {
		w.Held, err = s.store.Held(ctx, At(now))
	}
	return w, err
}

// Backlog counts garbage for metrics.
func (s *Service) Backlog(ctx context.Context) (b Backlog, err error) {
	if b.Rows, b.Bytes, b.Oldest, err = s.store.Backlog(ctx); err == nil {
		b.Held, err = s.store.Held(ctx, s.now())
	}
	return b, err
}

// AbortUploads aborts at most limit uploads that began before a time; see Uploads.AbortOld.
func (s *Service) AbortUploads(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.store.AbortOld(ctx, At(before), s.now(), limit)
}

// Batch is garbage claimed by a native API client.
type Batch struct {
	ID      string // of the claim
	Expires Moment // after this, others may claim the garbage
	Garbage []Garbage
}

// ClaimBatch claims up to limit rows whose grace period is over, with Object. The batch is zero if nothing is due.
func (s *Service) ClaimBatch(ctx context.Context, limit int) (Batch, error) {
	now := s.clock()
	claim := Claim{
		ID: NewUUID(), Before: At(now.Add(-s.Limits().GarbageAfter)), Now: At(now), Expires: At(now.Add(claimTime)), Limit: limit, Objects: true,
	}
	garbage, err := s.store.Claim(ctx, claim)
	if err != nil || len(garbage) == 0 {
		return Batch{}, err
	}
	return Batch{claim.ID, claim.Expires, garbage}, nil
}

// ReadBatch returns the rows that the batch still holds; none after it expired.
func (s *Service) ReadBatch(ctx context.Context, id string) ([]Garbage, error) {
	return s.store.Claimed(ctx, id, At(s.clock()), true)
}

// FreeBatch is idempotent. Bodies that cannot be removed stay in the batch.
func (s *Service) FreeBatch(ctx context.Context, id string) error {
	garbage, err := s.store.Claimed(ctx, id, At(s.clock()), false)
	if err != nil {
		return err
	}
	_, err = s.free(ctx, id, garbage)
	return err
}

// removeBodies removes the body on nodes, or all parts for a multipart upload. It is idempotent.
func (s *Service) removeBodies(ctx context.Context, g *Garbage) error {
	if len(g.Sharks) > 0 {
		if err := s.bodies.Remove(ctx, BodyPath(g.Owner, g.Bucket, g.ID, g.Name), g.Sharks); err != nil {
			return err
		}
	}
	if g.Upload == "" {
		return nil
	}
	for after := 0; ; {
		page, err := s.store.UploadBodies(ctx, g.Owner, g.Upload, after, segmentPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			if len(page[i].Sharks) == 0 {
				continue
			}
			if err := s.bodies.Remove(ctx, BodyPath(g.Owner, g.Bucket, page[i].ID, g.Name), page[i].Sharks); err != nil {
				return err
			}
		}
		after = page[len(page)-1].Number
	}
}

// CollectBuckets removes deleted buckets from before a time. A bucket with more than limit uploads needs several calls.
// n counts the buckets that were visited; fewer than limit mean that all were.
func (s *Service) CollectBuckets(ctx context.Context, before time.Time, limit int) (n int, err error) {
	all, err := s.store.DeletedBuckets(ctx, At(before), limit)
	if err != nil {
		return 0, err
	}
	for _, b := range all {
		if _, err := s.store.RemoveBucket(ctx, b, At(s.clock()), limit); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
