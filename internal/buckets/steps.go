package buckets

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"holdfast/internal/errcode"
)

// Account returns an account by name, or ErrNoAccount.
func (s *Service) Account(ctx context.Context, name string) (Account, error) {
	return s.store.Account(ctx, name)
}

// AccountByID returns ErrNoAccount for an unknown ID.
func (s *Service) AccountByID(ctx context.Context, id AccountID) (Account, error) {
	return s.store.AccountByID(ctx, id)
}

// ListAccounts returns at most limit accounts with names above after, by name.
func (s *Service) ListAccounts(ctx context.Context, after string, limit int) ([]Account, error) {
	return s.store.ListAccounts(ctx, after, limit)
}

// CreateAccount stores an account from NewAccount, with its first keys. It returns the errors of
// Accounts.CreateAccount.
func (s *Service) CreateAccount(ctx context.Context, a Account, keys ...Key) error {
	return s.store.CreateAccount(ctx, a, keys...)
}

// NewAccount generates an account without storing it.
func (s *Service) NewAccount(name string) Account {
	return Account{ID: AccountID(NewUUID()), Name: name, Created: s.now()}
}

// DeleteAccount deletes an account without buckets, and its keys; see Accounts.DeleteAccount.
func (s *Service) DeleteAccount(ctx context.Context, id AccountID) error {
	return s.store.DeleteAccount(ctx, id)
}

// Key returns an access key, revoked or not, with its encrypted secret.
func (s *Service) Key(ctx context.Context, id string) (Key, error) { return s.store.Key(ctx, id) }

// Keys returns at most limit keys of an account with IDs above after, by ID.
func (s *Service) Keys(ctx context.Context, id AccountID, after string, limit int) ([]Key, error) {
	return s.store.Keys(ctx, id, after, limit)
}

// ListKeys returns at most limit keys in all accounts with IDs above after, by ID.
func (s *Service) ListKeys(ctx context.Context, after string, limit int) ([]Key, error) {
	return s.store.ListKeys(ctx, after, limit)
}

// Usage returns an account's totals and all its buckets. An unknown account counts 0.
func (s *Service) Usage(ctx context.Context, owner AccountID) (AccountUsage, error) {
	return s.store.Usage(ctx, owner)
}

// Totals returns the accounts' totals in the given order, without their buckets; at most MaxPage.
func (s *Service) Totals(ctx context.Context, owners []AccountID) ([]AccountUsage, error) {
	return s.store.Totals(ctx, owners)
}

// BucketTotals returns the buckets' usage in the given order; at most MaxPage.
func (s *Service) BucketTotals(ctx context.Context, owner AccountID, b ...BucketRef) ([]BucketUsage, error) {
	return s.store.BucketTotals(ctx, owner, b)
}

// SetQuota sets a bucket's quota, or the account's if b is zero. It returns ErrNoBucket or ErrNoAccount.
func (s *Service) SetQuota(ctx context.Context, owner AccountID, b BucketRef, q Quota) error {
	return s.store.SetQuota(ctx, owner, b, q)
}

// Buckets lists an account's buckets by name. more means that buckets follow the page.
func (s *Service) Buckets(ctx context.Context, owner AccountID, q BucketQuery) (page []Bucket, more bool, err error) {
	return s.store.Buckets(ctx, owner, q)
}

// Bucket returns ErrNoBucket if the account lacks the bucket. On SQLite, changes by other processes show after
// KeyDelay.
func (s *Service) Bucket(ctx context.Context, owner AccountID, name string) (Bucket, error) {
	return s.store.Bucket(ctx, owner, name)
}

// FindBuckets returns at most limit buckets in all accounts whose name begins with prefix.
func (s *Service) FindBuckets(ctx context.Context, prefix string, limit int) ([]Bucket, error) {
	return s.store.FindBuckets(ctx, prefix, limit)
}

// CreateBucket checks the name and returns ErrBucketName, or the store's errors, with an existing
// bucket.
func (s *Service) CreateBucket(ctx context.Context, owner AccountID, name string) (Bucket, error) {
	if err := CheckBucketName(name); err != nil {
		return Bucket{}, err
	}
	return s.store.CreateBucket(ctx, owner, BucketRef{Name: name, ID: BucketID(NewUUID())}, s.now())
}

// SetBucket changes settings, and makes this process forget its note about the bucket.
func (s *Service) SetBucket(ctx context.Context, owner AccountID, b BucketRef, c SettingsChange) error {
	defer s.notes.forget(owner, b.Name) // even if it is unknown whether the change succeeded
	c.Now = s.now()
	return s.store.SetBucket(ctx, owner, b, c)
}

// SetLifecycle replaces the rules; without rules it removes them. The caller has checked them.
func (s *Service) SetLifecycle(ctx context.Context, owner AccountID, b BucketRef, l Lifecycle) error {
	if len(l.Rules) == 0 {
		l = Lifecycle{}
	} else {
		l.Changed, l.Bucket = s.now(), b.Name
	}
	return s.store.SetBucket(ctx, owner, b, SettingsChange{Lifecycle: &l})
}

// EditLifecycle stores the rules that edit makes from the current rules. edit must not change its argument, which is
// shared, and is called again if another change was made in between; its error comes back. No rules remove the setting.
// EditLifecycle returns *LifecycleError for invalid rules.
func (s *Service) EditLifecycle(ctx context.Context, owner AccountID, bucket string, edit func([]LifecycleRule) ([]LifecycleRule, error)) error {
	for {
		b, err := s.Bucket(ctx, owner, bucket)
		if err != nil {
			return err
		}
		l := b.Settings.Lifecycle
		was := l.Changed
		if l.Rules, err = edit(l.Rules); err != nil {
			return err
		}
		if len(l.Rules) == 0 {
			l = Lifecycle{}
		} else if invalid := l.Check(); invalid != nil {
			return invalid
		} else {
			l.Changed, l.Bucket = max(s.now(), was+1), b.Name
		}
		err = s.store.SetBucket(ctx, owner, b.BucketRef, SettingsChange{Lifecycle: &l, LifecycleWas: &was})
		if !errors.Is(err, ErrPrecondition) {
			return err
		}
	}
}

// Destinations returns the configured destinations for events. Callers must not change the slice.
func (s *Service) Destinations() []Destination { return s.destinations }

// SetNotifications also sends test events.
func (s *Service) SetNotifications(ctx context.Context, owner AccountID, b BucketRef, n Notifications) error {
	if invalid := n.Check(s.destinations); invalid != nil {
		return invalid
	}
	c := SettingsChange{Notifications: &n}
	if tests := testEvents(originOf(ctx), b, n, s.now()); len(tests) > 0 {
		c.Events = &tests
	}
	return s.SetBucket(ctx, owner, b, c)
}

// DeleteBucket deletes an empty bucket. See Buckets.
func (s *Service) DeleteBucket(ctx context.Context, owner AccountID, b BucketRef) error {
	defer s.notes.forget(owner, b.Name)
	return s.store.DeleteBucket(ctx, owner, b, s.now())
}

// Object returns the current object, or ErrNoObject.
func (s *Service) Object(ctx context.Context, owner AccountID, b BucketID, name string) (Object, error) {
	return s.store.Get(ctx, owner, b, name)
}

// Version returns a version or delete marker, or ErrNoVersion.
func (s *Service) Version(ctx context.Context, owner AccountID, b BucketID, name string, id VersionID) (Version, error) {
	return s.store.Version(ctx, owner, b, name, id)
}

// ListVersions returns a page with versions and delete markers, by name, newest first.
func (s *Service) ListVersions(ctx context.Context, owner AccountID, b BucketID, q VersionQuery) (VersionPage, error) {
	return s.store.ListVersions(ctx, owner, b, q)
}

// SetVersioning enables or suspends versions; see Versions.SetVersioning.
func (s *Service) SetVersioning(ctx context.Context, owner AccountID, b BucketRef, v Versioning) error {
	return s.store.SetVersioning(ctx, owner, b, v)
}

// SetBucketLock sets a bucket's default retention; see Versions.SetBucketLock.
func (s *Service) SetBucketLock(ctx context.Context, owner AccountID, b BucketRef, l BucketLock) error {
	return s.store.SetBucketLock(ctx, owner, b, l)
}

// LockNewBucket enables versioning and object lock.
func (s *Service) LockNewBucket(ctx context.Context, owner AccountID, b BucketRef) error {
	if err := s.store.SetVersioning(ctx, owner, b, VersioningEnabled); err != nil {
		return err
	}
	return s.store.SetBucketLock(ctx, owner, b, BucketLock{Enabled: true})
}

// Find returns a bucket with a current object. If only the object is missing, it returns the bucket with ErrNoObject.
func (s *Service) Find(ctx context.Context, owner AccountID, bucket, name string) (Bucket, Object, error) {
	return s.store.Find(ctx, owner, bucket, name)
}

// List returns a page with current objects. A missing bucket is an empty page.
func (s *Service) List(ctx context.Context, owner AccountID, b BucketID, q Query) (Page, error) {
	return s.store.List(ctx, owner, b, q)
}

// UpdateObject sets u.Now. See Store.Update.
func (s *Service) UpdateObject(ctx context.Context, owner AccountID, b BucketRef, u Update) (Object, error) {
	u.Now = s.now()
	o, err := s.store.Update(ctx, owner, b, u)
	s.countLocked(err)
	return o, err
}

// DeleteObject is TakeObject without the result.
func (s *Service) DeleteObject(ctx context.Context, owner AccountID, b BucketRef, d Delete) error {
	_, err := s.TakeObject(ctx, owner, b, d)
	return err
}

// TakeObject deletes an object and returns it. It sets d.Now and d.Notice. See Store.Delete.
func (s *Service) TakeObject(ctx context.Context, owner AccountID, b BucketRef, d Delete) (Deleted, error) {
	d.Now = s.now()
	return withNotice(ctx, s, noticed{owner, b, d.Name}, func(b BucketRef, n *Notice) (Deleted, error) {
		d.Notice = n
		done, err := s.store.Delete(ctx, owner, b, d)
		s.countLocked(err)
		return done, err
	})
}

// countLocked counts lock errors, for the metric.
func (s *Service) countLocked(err error) {
	if _, ok := errors.AsType[*LockedError](err); ok {
		s.locked.Add(1)
	}
}

// Locked returns the number of deletes and changes that locks prevented.
func (s *Service) Locked() int64 { return s.locked.Load() }

// DeleteObjects deletes a batch. The results are in the same order. See Store.DeleteAll.
func (s *Service) DeleteObjects(ctx context.Context, owner AccountID, b BucketRef, all []Deletion) ([]Deleted, error) {
	d := Deletions{All: all, Now: s.now()}
	n, err := s.notes.get(ctx, s, owner, b)
	if err != nil {
		return nil, err
	}
	if n != nil && slices.ContainsFunc(all, func(d Deletion) bool { return n.concerns(d.Name) }) {
		d.Notice = n
		n.Origin = originOf(ctx)
	}
	done, err := s.store.DeleteAll(ctx, owner, b, d)
	for i := range done {
		s.countLocked(done[i].Err)
	}
	return done, err
}

// CreateUpload sets u.Created and u.ID.
func (s *Service) CreateUpload(ctx context.Context, owner AccountID, b BucketRef, u Upload) (UploadID, error) {
	u.Created = s.now()
	u.ID = NewUploadID(u.Created)
	return u.ID, s.store.CreateUpload(ctx, owner, b, u)
}

// Upload returns ErrNoUpload for an upload that ended.
func (s *Service) Upload(ctx context.Context, u UploadKey) (Upload, error) {
	return s.store.Upload(ctx, u)
}

// ListUploads returns a page with incomplete uploads.
func (s *Service) ListUploads(ctx context.Context, owner AccountID, b BucketID, q UploadQuery) (UploadPage, error) {
	return s.store.ListUploads(ctx, owner, b, q)
}

// Parts returns at most limit parts with numbers above after. more means that parts follow the page.
func (s *Service) Parts(ctx context.Context, u UploadKey, after, limit int) (page []Part, more bool, err error) {
	return s.store.Parts(ctx, u, after, limit)
}

// BodiesOf returns a page of the parts of a multipart object.
func (s *Service) BodiesOf(ctx context.Context, owner AccountID, o *Object, after, limit int) ([]Segment, error) {
	return s.store.UploadBodies(ctx, owner, o.Upload, after, limit)
}

// CompleteUpload sets c.Object, c.MinPart and c.Now.
func (s *Service) CompleteUpload(ctx context.Context, u UploadKey, c Completion) (Written, error) {
	c.Object, c.MinPart, c.Now = ObjectID(NewUUID()), s.Limits().MinPart, s.now()
	return withNotice(ctx, s, noticed{u.Owner, u.Bucket, u.Name}, func(b BucketRef, n *Notice) (Written, error) {
		if u.Bucket, c.Notice = b, n; n != nil {
			n.Created = EventComplete
		}
		w, err := s.store.Complete(ctx, u, c)
		if !errors.Is(err, errUnverified) {
			return w, err
		}
		if err := s.verifyParts(ctx, u, c.Parts); err != nil {
			return w, err
		}
		c.Verified = true
		return s.store.Complete(ctx, u, c)
	})
}

// verifiers is the number of parts that verifyParts reads at once.
const verifiers = 16

// verifyParts returns a *PartError if a listed part's body cannot be read: a restore brought the row back, but not the
// body. It reads the first chunk of each body.
func (s *Service) verifyParts(ctx context.Context, u UploadKey, list []PartRef) error {
	listed := map[int]string{} // entity tags
	for _, p := range list {
		listed[p.Number] = p.ETag
	}
	for after := 0; ; {
		page, err := s.store.UploadBodies(ctx, u.Owner, u.ID, after, segmentPage)
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].Number
		page = slices.DeleteFunc(page, func(p Segment) bool { _, ok := listed[p.Number]; return !ok || len(p.Sharks) == 0 })
		errs := make([]error, len(page))
		var wait sync.WaitGroup
		for first := range min(verifiers, len(page)) {
			wait.Go(func() {
				for i := first; i < len(page); i += verifiers {
					if errs[i] = s.verifyPart(ctx, u, &page[i]); errors.Is(errs[i], ErrPart) {
						errs[i] = &PartError{Err: ErrPart, Number: page[i].Number, ETag: listed[page[i].Number]}
					}
				}
			})
		}
		if wait.Wait(); errors.Join(errs...) != nil {
			return cmp.Or(errs...)
		}
	}
}

// verifyPart returns ErrPart if no storage node has a part's body. It reads the first chunk only: a restored database
// may name bodies that are gone.
func (s *Service) verifyPart(ctx context.Context, u UploadKey, p *Segment) error {
	path := BodyPath(u.Owner, u.Bucket.ID, p.ID, u.Name)
	ref := Reference{Owner: u.Owner, Bucket: u.Bucket.ID, Name: u.Name, Upload: u.ID, Number: p.Number, Body: p.Body}
	body, err := s.bodies.Open(ctx, path, ref, 0, min(p.Length, ChunkSize))
	switch {
	case err == nil:
		return body.Close()
	case errcode.Is(err, errcode.Unavailable):
		return err
	}
	return ErrPart
}

// AbortUpload returns ErrNoUpload for an upload that was completed or aborted.
func (s *Service) AbortUpload(ctx context.Context, u UploadKey) error {
	return s.store.Abort(ctx, u, s.now())
}

// now returns the time for a request's writes.
func (s *Service) now() Moment { return At(s.clock()) }
