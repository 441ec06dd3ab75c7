package lifecycle

import (
	"context"
	"errors"

	"holdfast/internal/buckets"
)

const deleters = 8 // concurrent deletes

// versions deletes noncurrent versions and lone delete markers. A bucket without versions skips the phase.
func (s *sliceRun) versions(ctx context.Context, prefix string) error {
	if s.run.After == "" && s.run.Prefix == 0 {
		b, err := s.o.Store.Bucket(ctx, s.bucket.Owner, s.bucket.Name)
		if err != nil && !errors.Is(err, buckets.ErrNoBucket) { // a deleted bucket has no versions
			return err
		}
		if b.Versioning == buckets.VersioningOff || b.ID != s.bucket.ID {
			s.run.LifecyclePosition = buckets.LifecyclePosition{Phase: s.run.Phase + 1}
			return nil
		}
	}
	q := buckets.VersionQuery{Prefix: prefix, Noncurrent: true, After: s.run.After, AfterVersion: s.run.AfterVersion, Limit: min(s.left(), buckets.MaxPage), Bytes: pageBytes}
	page, err := s.o.Store.ListVersions(ctx, s.bucket.Owner, s.bucket.ID, q)
	if err != nil {
		return err
	}
	expired, by, err := s.expired(ctx, &page)
	if err != nil {
		return err
	}
	now := buckets.At(s.o.Clock())
	// The store checks locks again.
	deleted := buckets.DeleteEach(expired, deleters, func(d buckets.Deletion) (buckets.Deleted, error) {
		del := d.Delete(now)
		del.Noncurrent, del.Notice = by[d].noncurrent, s.notice()
		return s.o.Store.Delete(ctx, s.bucket.Owner, s.bucket.BucketRef, del)
	})
	for i, d := range deleted {
		_, locked := errors.AsType[*buckets.LockedError](d.Err)
		switch {
		case d.Err == nil:
			s.add(by[expired[i]].rule, buckets.Counts{Usage: buckets.Usage{Objects: 1, Bytes: d.Object.Length}})
		case errors.Is(d.Err, buckets.ErrNoVersion), errors.Is(d.Err, buckets.ErrPrecondition): // deleted or became current since
		case locked: // a later run deletes it when its lock has expired
		default:
			return d.Err
		}
	}
	s.read(len(page.Versions))
	if !page.More || len(page.Versions) == 0 {
		s.next()
		return nil
	}
	s.run.After, s.run.AfterVersion = page.After, page.AfterVersion
	return nil
}

// judged is the rule that expires a version, and whether the version must still be noncurrent.
type judged struct {
	rule       string
	noncurrent bool
}

// expired returns a page's expired versions that were not locked when the run began. It stores the last name's number
// of noncurrent versions in the run's position.
func (s *sliceRun) expired(ctx context.Context, page *buckets.VersionPage) (all []buckets.Deletion, by map[buckets.Deletion]judged, err error) {
	by = map[buckets.Deletion]judged{}
	name, newer := s.run.After, s.run.Newer
	for i := range page.Versions {
		v := &page.Versions[i]
		if v.Name != name {
			name, newer = v.Name, 0
		}
		older := false
		switch {
		case v.Current && i+1 < len(page.Versions):
			older = page.Versions[i+1].Name == v.Name
		case v.Current && page.More:
			if older, err = s.hasOlder(ctx, v); err != nil {
				return nil, nil, err
			}
		}
		if e, ok := s.rules.ExpiryOfVersion(v, newer); ok && e.At <= s.run.Began && !older && v.Lock.Check(s.run.Began, false) == nil {
			d := buckets.Deletion{Name: v.Name, Version: v.VersionID()}
			all, by[d] = append(all, d), judged{e.Rule.ID, !v.Current}
		}
		if !v.Current {
			newer++
		}
	}
	s.run.Newer = newer
	return all, by, nil
}

// hasOlder reports whether the name has versions older than v.
func (s *sliceRun) hasOlder(ctx context.Context, v *buckets.Version) (bool, error) {
	q := buckets.VersionQuery{Prefix: v.Name, Noncurrent: true, After: v.Name, AfterVersion: v.VersionID(), Limit: 1}
	page, err := s.o.Store.ListVersions(ctx, s.bucket.Owner, s.bucket.ID, q)
	return err == nil && len(page.Versions) > 0 && page.Versions[0].Name == v.Name, err
}
