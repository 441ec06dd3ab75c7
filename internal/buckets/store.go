package buckets

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
)

// Store stores the metadata of buckets and objects. Every method is atomic, and every
// method that takes an AccountID returns ErrNoAccountID for one that is not valid.
//
// Writes of one object exclude each other: a condition is checked against the current
// state, and every version that is overwritten or deleted becomes Garbage exactly once.
// Reads never write.
//
// A write to a bucket that no longer exists is ErrNoBucket, and so is one to a BucketRef
// of an earlier incarnation. A write that would exceed a quota is a *QuotaError and
// changes nothing. Any method may return errcode.Unavailable when the engine is
// unavailable. Then it had no effect, except that a lost connection may leave the result
// of a write unknown.
//
// The test suite in storetest defines the contract.
type Store interface {
	Finder

	// CreateBucket creates a bucket with the ID b.ID. If the account has one with this
	// name, it returns that one and ErrBucketExists. An account that was deleted meanwhile
	// is ErrNoAccount.
	CreateBucket(ctx context.Context, owner AccountID, b BucketRef, now Moment) (Bucket, error)

	// Bucket reads a bucket by name, or returns ErrNoBucket.
	Bucket(ctx context.Context, owner AccountID, name string) (Bucket, error)

	// Buckets reads a page of buckets; more reports whether others follow.
	Buckets(ctx context.Context, owner AccountID, q BucketQuery) (page []Bucket, more bool, err error)

	// SetBucket changes settings of a bucket and appends its events, or returns ErrPrecondition as SettingsChange.LifecycleWas says.
	SetBucket(ctx context.Context, owner AccountID, b BucketRef, c SettingsChange) error

	// DeleteBucket deletes an empty bucket, or returns ErrBucketNotEmpty. Its
	// incomplete uploads become invisible and are aborted by RemoveBucket.
	DeleteBucket(ctx context.Context, owner AccountID, b BucketRef, now Moment) error

	// Put writes an object. Created and Modified become w.Now, but Modified of an imported object becomes
	// Imported, which is also when the version that it replaces was superseded. The error of w.Condition is that of Condition.CheckWrite. b.ID may be empty if the body is not on storage nodes.
	// A lock in a bucket without object lock is ErrNoLock. The result may be without the default retention of the bucket.
	Put(ctx context.Context, owner AccountID, b BucketRef, w Put) (Written, error)

	// Get reads an object, or returns ErrNoObject.
	Get(ctx context.Context, owner AccountID, b BucketID, name string) (Object, error)

	// Find reads a bucket by name and an object in it, as Bucket and Get do. If only the
	// bucket exists, it returns that with ErrNoObject.
	Find(ctx context.Context, owner AccountID, bucket, name string) (Bucket, Object, error)

	// Segments reads the segments of an upload in order, beginning with the one that has
	// the offset from, at most limit.
	Segments(ctx context.Context, owner AccountID, u UploadID, from int64, limit int) ([]Segment, error)

	// Update replaces the metadata of an object, or of one of its versions; the body, its ID and Created stay. It
	// returns the object without Inline. A delete marker is ErrMarker. Of a locked version only tags and the lock can be
	// changed; other changes, and changes that the lock forbids, are a *LockedError.
	Update(ctx context.Context, owner AccountID, b BucketRef, w Update) (Object, error)

	// Delete deletes an object, or returns ErrNoObject. In a bucket with versions it makes a delete marker, also where no
	// object is. With d.Version it deletes this version, or returns ErrNoVersion, or a *LockedError. b.ID may be empty.
	Delete(ctx context.Context, owner AccountID, b BucketRef, d Delete) (Deleted, error)

	// DeleteAll deletes objects, each by itself as Delete does, in any order. The result of each has its error, and may
	// be without its Object. With an error of its own it may have deleted some.
	DeleteAll(ctx context.Context, owner AccountID, b BucketRef, d Deletions) ([]Deleted, error)

	// List reads a page of a bucket from one snapshot. It reads about as many rows as
	// the page has entries, however many objects a group has.
	List(ctx context.Context, owner AccountID, b BucketID, q Query) (Page, error)

	// Ping checks that the engine is reachable and has the schema that this binary
	// requires. Otherwise it returns errcode.Unavailable with the reason.
	Ping(ctx context.Context) error
}

// Finder finds buckets of which the account is not known.
type Finder interface {
	// Namesakes returns the buckets with this name of at most two accounts, by which
	// a bucket without its account is found if only one account has it.
	Namesakes(ctx context.Context, name string) ([]Bucket, error)

	// FindBuckets returns at most limit buckets of any account whose names begin with a prefix, which
	// is not "", ordered by name and owner.
	FindBuckets(ctx context.Context, prefix string, limit int) ([]Bucket, error)
}

// Put is a write of an object.
type Put struct {
	Object    Object
	Condition Condition
	Now       Moment
	Notice    *Notice // its events are appended; the bucket needs its ID
}

// Stored returns the object as Put stores it.
func (p *Put) Stored() Object {
	o := p.Object
	o.Created, o.Modified, o.Version = p.Now, cmp.Or(o.Imported, p.Now), ""
	return o
}

// Delete is a deletion of an object.
type Delete struct {
	Name      string
	Version   VersionID // "": the object
	Condition Condition
	Now       Moment

	// Unchanged, if set, is the object as it was read. If its body or its metadata has changed since, the error is ErrPrecondition.
	// The bucket needs its ID.
	Unchanged *Object

	// Noncurrent refuses the current version with ErrPrecondition. It needs Version.
	Noncurrent bool

	Bypass bool // the right to ignore governance

	// Imported, if set, is when another server made the delete marker, which gets that time. The bucket needs its ID.
	Imported Moment

	Notice *Notice // as in Put
}

// CheckUnchanged compares the object that would be deleted with Unchanged.
func (d *Delete) CheckUnchanged(o *Object) error {
	if was := d.Unchanged; was != nil && (was.ID != o.ID || !was.SameMetadata(o)) {
		return ErrPrecondition
	}
	return nil
}

// Deletions are the objects that DeleteAll deletes.
type Deletions struct {
	All    []Deletion
	Now    Moment
	Notice *Notice // of their events
}

// Delete returns a deletion as Store.Delete takes it.
func (d *Deletions) Delete(of *Deletion) Delete {
	r := of.Delete(d.Now)
	r.Notice = d.Notice
	return r
}

// Deletion is an object that DeleteAll deletes.
type Deletion struct {
	Name    string
	Version VersionID // "": the object
	ETag    string    // "": no condition; "*": there is an object; otherwise its entity tag or ID
	Bypass  bool      // as in Delete
}

// Delete returns the deletion as Store.Delete takes it.
func (d *Deletion) Delete(now Moment) Delete {
	r := Delete{Name: d.Name, Version: d.Version, Now: now, Bypass: d.Bypass}
	switch d.ETag {
	case "":
	case "*":
		r.Condition.Match.Any = true
	default:
		r.Condition.Match.Tags = []string{d.ETag}
	}
	return r
}

// Written is the result of a Put.
type Written struct {
	Object   Object
	Replaced bool      // there was an object with this name
	Version  VersionID // of the object; "": the bucket has no versions
}

// Update is a change of an object's metadata. A nil field stays as it is.
type Update struct {
	Name        string
	Version     VersionID // "": the current object
	ContentType *string
	Headers     map[string]string
	Roles       *[]string
	Tags        *map[string]string
	Extra       *json.RawMessage // Properties.Extra; null: none
	Lock        *LockChange
	Touch       bool // Modified becomes Now; tags alone do not change it
	Imported    bool // the tags are those of the source of an import
	Condition   Condition
	Now         Moment
}

// UploadKey identifies an upload. Only PutPart and Complete need the name of the bucket.
type UploadKey struct {
	Owner  AccountID
	Bucket BucketRef
	Name   string // of the object
	ID     UploadID
}

// Uploads stores multipart uploads. Errors are those of Store; an upload that does not
// exist, or that belongs to another name or bucket, is ErrNoUpload.
type Uploads interface {
	// CreateUpload begins an upload with the ID u.ID.
	CreateUpload(ctx context.Context, owner AccountID, b BucketRef, u Upload) error

	// Upload reads an upload.
	Upload(ctx context.Context, u UploadKey) (Upload, error)

	// PutPart stores a part. A part with the same number becomes garbage.
	PutPart(ctx context.Context, u UploadKey, p Part) error

	// Parts reads at most limit parts with greater numbers than after.
	Parts(ctx context.Context, u UploadKey, after, limit int) (page []Part, more bool, err error)

	// ListUploads reads a page of the uploads of a bucket.
	ListUploads(ctx context.Context, owner AccountID, b BucketID, q UploadQuery) (UploadPage, error)

	// Complete makes an object of an upload. Errors about the list are as of Assemble, and about the
	// object are ErrObjectSize and *ChecksumError.
	// If the upload has become the current object with this name, Complete returns that
	// object: a client that did not get the answer repeats the request.
	Complete(ctx context.Context, u UploadKey, c Completion) (Written, error)

	// Abort ends an upload; its parts become garbage.
	Abort(ctx context.Context, u UploadKey, now Moment) error

	// AbortOld aborts at most limit uploads of any account that began before a time, and
	// returns their number.
	AbortOld(ctx context.Context, before, now Moment, limit int) (int, error)
}

// Completion completes an upload.
type Completion struct {
	Object    ObjectID // of the new object
	Parts     []PartRef
	MinPart   int64
	Condition Condition
	Expected  Expected
	Now       Moment
	Notice    *Notice // as in Put
}

// Collector frees what was deleted. The worker that has claimed garbage removes its
// bodies from the storage nodes and then the rows. All steps are idempotent, so a worker
// that was killed is replaced by another one after its claim has expired.
type Collector interface {
	Holds

	// Claim reserves garbage of any account, oldest first, that no unexpired claim has.
	// While a hold has not expired, it reserves nothing.
	Claim(ctx context.Context, c Claim) ([]Garbage, error)

	// Claimed reads the garbage that an unexpired claim still has, oldest first; with objects
	// also Garbage.Object.
	Claimed(ctx context.Context, claim string, now Moment, objects bool) ([]Garbage, error)

	// Unclaim ends a claim: what it has not removed may be claimed by others at once.
	Unclaim(ctx context.Context, claim string) error

	// Waiting says why garbage is still there: what was deleted after a time, and what
	// unexpired claims have.
	Waiting(ctx context.Context, before, now Moment) (Waiting, error)

	// UploadBodies reads the bodies of an upload's parts, of a complete one or of garbage,
	// with greater numbers than after; at most limit.
	UploadBodies(ctx context.Context, owner AccountID, u UploadID, after, limit int) ([]Segment, error)

	// Remove removes rows that the claim still has, and returns their number. Of garbage
	// with an upload, the rows of the parts are removed with it.
	Remove(ctx context.Context, claim string, g []Garbage) (int, error)

	// DeletedBuckets reads at most limit buckets of any account that were deleted before
	// a time and have no garbage any more.
	DeletedBuckets(ctx context.Context, before Moment, limit int) ([]DeletedBucket, error)

	// RemoveBucket aborts at most limit incomplete uploads of a deleted bucket. If there
	// were none, it removes the bucket's row, settings and counters and returns done.
	RemoveBucket(ctx context.Context, b DeletedBucket, now Moment, limit int) (done bool, err error)

	// Backlog counts the garbage, and the time of the oldest.
	Backlog(ctx context.Context) (rows, bytes int64, oldest Moment, err error)
}

// Holds keep garbage for backups.
type Holds interface {
	// Hold keeps Claim from reserving garbage, so that a backup finds all bodies that the
	// database had when the hold began. Garbage that was claimed before may still be
	// removed. A hold with the same ID is extended. Expired holds are removed.
	Hold(ctx context.Context, id string, now, expires Moment) error

	// Release ends a hold. A hold that does not exist is not an error.
	Release(ctx context.Context, id string) error

	// Held returns when the last hold expires, 0 without one that has not expired.
	Held(ctx context.Context, now Moment) (Moment, error)
}

// References reads which bodies should be on storage nodes.
type References interface {
	// References calls fn for every body on storage nodes that an object, a part or
	// garbage has, from one snapshot and in any order.
	References(ctx context.Context, fn func(Reference) error) error

	// SetSharks replaces the list of nodes of a body if it is still r.Sharks, and reports
	// whether it was. It does not change Modified. The list of garbage may become empty.
	// SetSharks ends the claim of garbage and of parts of garbage: the worker removes the
	// body from the nodes of the old list, so the row must stay for the next worker. A
	// node that is added and removed at the same time is ErrNodeRemoved.
	SetSharks(ctx context.Context, r Reference, sharks []string) (bool, error)

	// SetFrames sets the frames of a body that has none, if its row still has the body r.ID, and
	// reports whether it did. Frames take the place of the CRC32C. Garbage has no frames.
	SetFrames(ctx context.Context, r Reference, f Frames) (bool, error)
}

// Reference is a body on storage nodes and the row that has it.
type Reference struct {
	Owner   AccountID
	Bucket  BucketID
	Name    string
	Upload  UploadID // not empty: a part
	Number  int      // of the part
	Garbage bool     // it is garbage, or a part of an upload that is
	Body
}

// Counters reads and sets usage and quotas.
type Counters interface {
	// Usage reads the counters of an account.
	Usage(ctx context.Context, owner AccountID) (AccountUsage, error)

	// Totals reads the counters of at most MaxPage accounts in their order, without those of their
	// buckets.
	Totals(ctx context.Context, owners []AccountID) ([]AccountUsage, error)

	// BucketTotals reads the counters of at most MaxPage buckets of an account in their order. Those of
	// a bucket that does not exist are 0.
	BucketTotals(ctx context.Context, owner AccountID, b []BucketRef) ([]BucketUsage, error)

	// SetQuota sets the quota of a bucket, or of the account if b is zero. It takes
	// effect at once and deletes nothing.
	SetQuota(ctx context.Context, owner AccountID, b BucketRef, q Quota) error

	// Audit counts the rows of an account and returns the counters that differ. With
	// repair it sets them.
	Audit(ctx context.Context, owner AccountID, repair bool) ([]Miscount, error)
}

// Accounts stores accounts and their access keys.
type Accounts interface {
	// CreateAccount creates an account with access keys of it, or returns ErrAccountExists
	// or ErrKeyExists.
	CreateAccount(ctx context.Context, a Account, keys ...Key) error

	// Account reads an account by name, or returns ErrNoAccount.
	Account(ctx context.Context, name string) (Account, error)

	// AccountByID reads an account by ID, or returns ErrNoAccount.
	AccountByID(ctx context.Context, id AccountID) (Account, error)

	// ListAccounts reads at most limit accounts with greater names than after.
	ListAccounts(ctx context.Context, after string, limit int) ([]Account, error)

	// DeleteAccount deletes an account with its keys, or returns ErrAccountHasBucket.
	DeleteAccount(ctx context.Context, id AccountID) error

	// CreateKey creates an access key, or returns ErrKeyExists or ErrNoAccount.
	CreateKey(ctx context.Context, k Key) error

	// Key reads an access key by ID, or returns ErrNoKey.
	Key(ctx context.Context, id string) (Key, error)

	// Keys reads at most limit keys of an account with greater IDs than after, by ID.
	Keys(ctx context.Context, id AccountID, after string, limit int) ([]Key, error)

	// ListKeys reads at most limit keys of all accounts with greater IDs than after, by ID.
	ListKeys(ctx context.Context, after string, limit int) ([]Key, error)

	// ChangeKey replaces the terms of a key, or returns ErrKeyChanged if they are not those of from. A
	// key that is revoked or does not exist is ErrNoKey.
	ChangeKey(ctx context.Context, id string, from, to KeyTerms) error

	// RevokeKey revokes a key, or returns ErrNoKey.
	RevokeKey(ctx context.Context, id string, now Moment) error
}

// Nodes stores the storage nodes: those of the configuration, and those that commands
// have added.
type Nodes interface {
	// Nodes reads all nodes, by ID, with those that were removed.
	Nodes(ctx context.Context) ([]Node, error)

	// SetNode adds a node or replaces it.
	SetNode(ctx context.Context, n Node) error

	// ChangeNode gives a node another state if it has one of from, and returns the state that it had; "" for an
	// unknown node. While the state is NodeRemoving or NodeRemoved, Put, PutPart and SetSharks of a body on the node
	// return ErrNodeRemoved.
	ChangeNode(ctx context.Context, id string, from []NodeState, to NodeState) (was NodeState, err error)

	// CheckUnused returns ErrNodeInUse if an object, part or garbage is on a node whose state is NodeRemoving. It finds
	// all writes that have begun before that state, and reads all rows without delaying writers.
	CheckUnused(ctx context.Context, id string) error
}

// Leases let one process at a time do something, on whatever machine. A lease ends by
// itself if its process does not extend it. The clock is that of the database server.
type Leases interface {
	// Lease gives l.Holder the lease l.Name for a time, or extends it. If another holder
	// has it, Lease returns that one with the time that is left, and changes nothing.
	Lease(ctx context.Context, l Lease) (Lease, error)

	// EndLease ends a lease if the holder has it.
	EndLease(ctx context.Context, name, holder string) error
}

// Lease is a lease and who has it.
type Lease struct {
	Name    string
	Holder  string // one that asks again has the lease still
	Process string // a description of the holder for people
	Left    time.Duration
}

// ChecksLock reports whether the update of an object needs the clock of the database and the object lock of the bucket.
func (u *Update) ChecksLock(o *Object) bool {
	return u.Lock != nil || !o.Lock.IsZero() && u.changesMetadata()
}

func (u *Update) changesMetadata() bool {
	return u.ContentType != nil || u.Headers != nil || u.Roles != nil || u.Extra != nil || u.Touch
}

// ApplyLock changes the lock of an object as the update says, or returns ErrNoLock or a *LockedError. now is the time of the database's clock.
func (u *Update) ApplyLock(o *Object, b BucketLock, now Moment) (err error) {
	if u.changesMetadata() {
		if err := o.Lock.Check(now, false); err != nil {
			return err
		}
	}
	switch {
	case u.Lock == nil:
		return nil
	case !b.Enabled:
		return ErrNoLock
	}
	o.Lock, err = o.Lock.Change(*u.Lock, now)
	return err
}

// Apply returns an object as the update leaves it, with the lock that ApplyLock has set.
func (u *Update) Apply(o Object) Object {
	if u.ContentType != nil {
		o.ContentType = *u.ContentType
	}
	if u.Headers != nil {
		o.Headers = u.Headers
	}
	if u.Roles != nil {
		o.Roles = *u.Roles
	}
	if u.Tags != nil {
		o.Tags = *u.Tags
	}
	if u.Imported {
		o.ImportedTags = TagsSum(o.Tags)
	}
	if u.Extra != nil {
		if o.Extra = *u.Extra; string(o.Extra) == "null" {
			o.Extra = nil
		}
	}
	if u.Touch {
		o.Modified = u.Now
	}
	return o
}
