package buckets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// lockOperation declares buckets/set-lock.
func (s *Buckets) lockOperation() operate.Operation {
	return operate.NewChange(operate.About{
		Path: "buckets/set-lock", Doc: "Enable object lock for a bucket, and set the default retention", Title: "Object lock", Button: "Set object lock", Stays: true,
		Text: "Requires versioning. Object lock cannot be disabled again. none: new objects are unlocked until a client or an operator locks them. " +
			"governance: during the period, only keys with the right bypass can delete a version. compliance: during the period, nobody can.",
		Example: "main vault --mode governance --days 30",
	}, on(s, s.setLock))
}

// lockInput is a default retention for new objects: days or years with a mode, or nothing.
type lockInput struct {
	bucketInput
	Mode  string `flag:"mode" doc:"governance, compliance, or none" enum:"none,governance,compliance" default:"none"`
	Days  int    `flag:"days" doc:"lock new objects for this many days" least:"0" default:"0"`
	Years int    `flag:"years" doc:"or for this many years" least:"0" default:"0"`
}

// lock does not check the values; Check does.
func (in lockInput) lock() buckets.BucketLock {
	return buckets.BucketLock{Enabled: true, Mode: lockMode(in.Mode), Days: in.Days, Years: in.Years}
}

// Check makes buckets.BucketLock's errors refer to the inputs.
func (in lockInput) Check() error {
	switch err := in.lock().Check(); {
	case lockMode(in.Mode) == "" && in.Mode != noMode:
		return &operate.InputError{Input: "mode", Reason: "must be none, governance or compliance"}
	case errors.Is(err, buckets.ErrRetentionPeriod):
		return &operate.InputError{Input: "days", Reason: "must be at most 36500 days, or 100 years"}
	case err != nil:
		return &operate.InputError{Input: "days", Reason: "expected either days or years with a mode, and neither with none"}
	}
	return nil
}

// setLock enables object lock, which cannot be disabled, and replaces the default retention. Versions that exist keep
// their locks.
func (s *Buckets) setLock(ctx context.Context, in lockInput) (bucketChange, error) {
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if err == nil {
		err = about(in.Bucket, s.opened.SetBucketLock(ctx, a.ID, b.BucketRef, in.lock()))
	}
	return bucketChange{in.Account, in.Bucket, fmt.Sprintf("object lock for bucket %s: %s", in.Bucket, lockText(in.lock()))}, err
}

// lockText describes a bucket's object lock in words.
func lockText(l buckets.BucketLock) string {
	switch {
	case !l.Enabled:
		return "off"
	case l.Mode == "":
		return "enabled, without a default retention"
	case l.Days > 0:
		return fmt.Sprintf("enabled, new objects %s for %d days", strings.ToLower(string(l.Mode)), l.Days)
	}
	return fmt.Sprintf("enabled, new objects %s for %d years", strings.ToLower(string(l.Mode)), l.Years)
}

// scannedVersions limits how many versions an error message counts.
const scannedVersions = 10 * buckets.MaxPage

// nameLocked adds to the error cause why the bucket is not empty: how many of its versions are locked, and one of them
// with the end of its lock. It returns cause unchanged if no version is locked.
func (s *Buckets) nameLocked(ctx context.Context, b *buckets.Bucket, cause error) error {
	if !b.Lock.Enabled || cause == nil {
		return cause
	}
	locked, read := 0, 0
	var first *buckets.Version
	for q := (buckets.VersionQuery{Limit: buckets.MaxPage}); read < scannedVersions; {
		page, err := s.opened.ListVersions(ctx, b.Owner, b.ID, q)
		if err != nil {
			return errors.Join(cause, err)
		}
		for i := range page.Versions {
			if v := &page.Versions[i]; v.Lock.Check(s.opened.Now(), false) != nil {
				if locked++; first == nil {
					first = v
				}
			}
		}
		if read += len(page.Versions); !page.More {
			break
		}
		q.After, q.AfterVersion = page.After, page.AfterVersion
	}
	if first == nil {
		return cause
	}
	until := "with a legal hold"
	if first.Lock.Hold != buckets.HoldOn {
		until = "until " + first.Lock.Until.Time().Format(time.RFC3339)
	}
	return errcode.Newf(errcode.Conflict, "%s: bucket %s has %d versions, %d locked, e.g. version %s of %s (%s)",
		errcode.Message(cause), b.Name, read, locked, first.VersionID(), printable(first.Name), until)
}

// nameLockedOf is nameLocked for an account that cannot be deleted because of its buckets.
func (s *Buckets) nameLockedOf(ctx context.Context, id buckets.AccountID, cause error) error {
	if !errors.Is(cause, buckets.ErrAccountHasBucket) {
		return cause
	}
	for q := (buckets.BucketQuery{Limit: buckets.MaxPage}); ; {
		page, more, err := s.opened.Buckets(ctx, id, q)
		if err != nil {
			return errors.Join(cause, err)
		}
		for i := range page {
			if named := s.nameLocked(ctx, &page[i], cause); named != cause { //nolint:errorlint // the same value
				return named
			}
			q.After = page[i].Name
		}
		if !more {
			return cause
		}
	}
}
