package buckets

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
)

// Store stores bucket and object metadata. Every method is atomic and returns ErrNoAccountID for an invalid
// AccountID. storetest defines the contract.
//
// Writes to the same object exclude each other: conditions are checked against the current state, and each
// overwritten or deleted version becomes Garbage exactly once. Reads never write.
//
// Writing to a missing bucket, or to an earlier incarnation of a BucketRef, returns ErrNoBucket. Exceeding a quota
// returns *QuotaError and changes nothing. Any method may return errcode.Unavailable; it then had no effect, except
// that a lost connection may leave the result of a write unknown.
type Store interface {
	Finder

	// CreateBucket uses b.ID. If the name exists it returns that bucket and ErrBucketExists; if the account was
	// deleted meanwhile, ErrNoAccount.
	CreateBucket(ctx context.Context, owner AccountID, b BucketRef, now Moment) (Bucket, error)

	// Bucket returns ErrNoBucket for an unknown name.
	Bucket(ctx context.Context, owner AccountID, name string) (Bucket, error)

	Buckets(ctx context.Context, owner AccountID, q BucketQuery) (page []Bucket, more bool, err error)

	// SetBucket changes bucket settings and appends the events. It returns ErrPrecondition if
	// SettingsChange.LifecycleWas does not match.
	SetBucket(ctx context.Context, owner AccountID, b BucketRef, c SettingsChange) error

	// DeleteBucket returns ErrBucketNotEmpty unless the bucket is empty. Incomplete uploads become invisible;
	// RemoveBucket aborts them.
	DeleteBucket(ctx context.Context, owner AccountID, b BucketRef, now Moment) error

	// Put sets Created and Modified to w.Now. For an imported object, Modified is Imported, which is also when the
	// replaced version was superseded. w.Condition fails as Condition.CheckWrite does. b.ID may be empty if the body
	// is not on storage nodes. A lock in a bucket without object lock returns ErrNoLock. The result may lack the
	// bucket's default retention.
	Put(ctx context.Context, owner AccountID, b BucketRef, w Put) (Written, error)

	// Get returns ErrNoObject for an unknown name.
	Get(ctx context.Context, owner AccountID, b BucketID, name string) (Object, error)

	// Find combines Bucket and Get. If only the bucket exists, it returns the bucket and ErrNoObject.
	Find(ctx context.Context, owner AccountID, bucket, name string) (Bucket, Object, error)

	// Segments reads at most limit segments of an upload in order, starting with the segment at offset from.
	Segments(ctx context.Context, owner AccountID, u UploadID, from int64, limit int) ([]Segment, error)

	// Update replaces the metadata of an object or version; the body, its ID and Created stay. The result lacks
	// Inline. A delete marker returns ErrMarker. A locked version accepts only changes to tags and lock; other
	// changes, and those the lock forbids, return *LockedError.
	Update(ctx context.Context, owner AccountID, b BucketRef, w Update) (Object, error)

	// Delete returns ErrNoObject for an unknown name. In a versioned bucket it creates a delete marker, even if the
	// object does not exist. With d.Version it deletes that version, or returns ErrNoVersion or *LockedError. b.ID
	// may be empty.
	Delete(ctx context.Context, owner AccountID, b BucketRef, d Delete) (Deleted, error)

	// DeleteAll deletes each object as Delete does, in any order. Each result carries its own error and may lack
	// Object. If DeleteAll itself fails, some objects may be deleted.
	DeleteAll(ctx context.Context, owner AccountID, b BucketRef, d Deletions) ([]Deleted, error)

	// List reads a page from one snapshot. It reads about as many rows as the page has entries, however large the
	// groups are.
	List(ctx context.Context, owner AccountID, b BucketID, q Query) (Page, error)

	// Ping returns errcode.Unavailable with the reason unless the engine is reachable and its schema is the one this
	// binary requires.
	Ping(ctx context.Context) error
}

// Finder finds buckets whose account is unknown.
type Finder interface {
	// Namesakes returns the buckets with this name from at most two accounts. A name is unambiguous if only one
	// account uses it.
	Namesakes(ctx context.Context, name string) ([]Bucket, error)

	// FindBuckets returns at most limit buckets across accounts, ordered by name and owner. prefix must not be empty.
	FindBuckets(ctx context.Context, prefix string, limit int) ([]Bucket, error)
}

// Put writes an object.
type Put struct {
	Object    Object
	Condition Condition
	Now       Moment
	Notice    *Notice // events to append; requires the bucket ID
}

// Stored returns the object as Put stores it.
func (p *Put) Stored() Object {
	o := p.Object
	o.Created, o.Modified, o.Version = p.Now, cmp.Or(o.Imported, p.Now), ""
	return o
}

// Delete deletes an object or version.
type Delete struct {
	Name      string
	Version   VersionID // "": the current object
	Condition Condition
	Now       Moment

	// Unchanged, if set, is the object as read. If body or metadata changed since, Delete returns ErrPrecondition.
	// Requires the bucket ID.
	Unchanged *Object

	// Noncurrent rejects the current version with ErrPrecondition. Requires Version.
	Noncurrent bool

	Bypass bool // ignore governance locks

	// Imported, if set, becomes the time of the delete marker: when the source server created it. Requires the bucket
	// ID.
	Imported Moment

	Notice *Notice // as in Put
}

// CheckUnchanged returns ErrPrecondition if o differs from Unchanged.
func (d *Delete) CheckUnchanged(o *Object) error {
	if was := d.Unchanged; was != nil && (was.ID != o.ID || !was.SameMetadata(o)) {
		return ErrPrecondition
	}
	return nil
}

// Deletions is a batch for DeleteAll.
type Deletions struct {
	All    []Deletion
	Now    Moment
	Notice *Notice
}

// Delete converts a deletion for Store.Delete.
func (d *Deletions) Delete(of *Deletion) Delete {
	r := of.Delete(d.Now)
	r.Notice = d.Notice
	return r
}

// Deletion deletes an object or version as part of a batch.
type Deletion struct {
	Name    string
	Version VersionID // "": the current object
	ETag    string    // "": no condition; "*": the object must exist; otherwise its entity tag or ID
	Bypass  bool      // as in Delete
}

// Delete converts the deletion for Store.Delete.
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
	Replaced bool      // an object with this name existed
	Version  VersionID // "": the bucket is not versioned
}

// Update changes object metadata. A nil field stays as it is.
type Update struct {
	Name        string
	Version     VersionID // "": the current object
	ContentType *string
	Headers     map[string]string
	Roles       *[]string
	Tags        *map[string]string
	Extra       *json.RawMessage // Properties.Extra; null: none
	Lock        *LockChange
	Touch       bool // sets Modified to Now; tags alone do not
	Imported    bool // the tags come from an import
	Condition   Condition
	Now         Moment
}

// UploadKey identifies an upload. Only PutPart and Complete need the bucket name.
type UploadKey struct {
	Owner  AccountID
	Bucket BucketRef
	Name   string // object name
	ID     UploadID
}

// Uploads stores multipart uploads. It returns the same errors as Store, and ErrNoUpload for an upload that does not
// exist or belongs to another name or bucket.
type Uploads interface {
	// CreateUpload uses u.ID.
	CreateUpload(ctx context.Context, owner AccountID, b BucketRef, u Upload) error

	Upload(ctx context.Context, u UploadKey) (Upload, error)

	// PutPart stores a part. A replaced part becomes garbage.
	PutPart(ctx context.Context, u UploadKey, p Part) error

	Parts(ctx context.Context, u UploadKey, after, limit int) (page []Part, more bool, err error)

	ListUploads(ctx context.Context, owner AccountID, b BucketID, q UploadQuery) (UploadPage, error)

	// Complete turns an upload into an object. It returns the errors of Assemble, ErrObjectSize and *ChecksumError.
	// If the upload is already the current object, Complete returns that object, so clients can retry a lost answer.
	Complete(ctx context.Context, u UploadKey, c Completion) (Written, error)

	// Abort ends an upload. Its parts become garbage.
	Abort(ctx context.Context, u UploadKey, now Moment) error

	// AbortOld aborts at most limit uploads across accounts that started before a time.
	AbortOld(ctx context.Context, before, now Moment, limit int) (int, error)
}

// Completion completes an upload.
type Completion struct {
	Object    ObjectID // ID for the new object
	Parts     []PartRef
	MinPart   int64
	Condition Condition
	Expected  Expected
	Now       Moment
	Notice    *Notice // as in Put
}

// Collector frees deleted data. A worker claims garbage, removes the bodies from the storage nodes, then the rows.
// All steps are idempotent: when the claim of a killed worker expires, another takes over.
type Collector interface {
	Holds

	// Claim reserves the oldest unclaimed garbage across accounts. It reserves nothing during a hold.
	Claim(ctx context.Context, c Claim) ([]Garbage, error)

	// Claimed reads the garbage under an unexpired claim, oldest first; with objects it fills in Garbage.Object.
	Claimed(ctx context.Context, claim string, now Moment, objects bool) ([]Garbage, error)

	// Unclaim releases the remaining garbage to other workers.
	Unclaim(ctx context.Context, claim string) error

	// Waiting explains why garbage remains: it was deleted after a time, or is under an unexpired claim.
	Waiting(ctx context.Context, before, now Moment) (Waiting, error)

	// UploadBodies reads at most limit part bodies with numbers above after. The upload may be incomplete, complete
	// or garbage.
	UploadBodies(ctx context.Context, owner AccountID, u UploadID, after, limit int) ([]Segment, error)

	// Remove removes rows still under the claim, including part rows of uploads, and returns their number.
	Remove(ctx context.Context, claim string, g []Garbage) (int, error)

	// DeletedBuckets reads at most limit buckets across accounts that were deleted before a time and whose garbage is
	// gone.
	DeletedBuckets(ctx context.Context, before Moment, limit int) ([]DeletedBucket, error)

	// RemoveBucket aborts at most limit incomplete uploads of a deleted bucket. If no uploads were left, it removes
	// the bucket's row, settings and counters and returns done.
	RemoveBucket(ctx context.Context, b DeletedBucket, now Moment, limit int) (done bool, err error)

	// Backlog returns the amount of garbage and the time of the oldest row.
	Backlog(ctx context.Context) (rows, bytes int64, oldest Moment, err error)
}

// Holds delay garbage collection during backups.
type Holds interface {
	// Hold stops Claim from reserving garbage, so a backup finds every body that the database referenced when the
	// hold began. Garbage claimed earlier may still be removed. Repeating an ID extends the hold. Hold also removes
	// expired holds.
	Hold(ctx context.Context, id string, now, expires Moment) error

	// Release ends a hold. An unknown ID is not an error.
	Release(ctx context.Context, id string) error

	// Held returns when the last unexpired hold expires, or 0.
	Held(ctx context.Context, now Moment) (Moment, error)
}

// References tracks the bodies that belong on storage nodes.
type References interface {
	// References calls fn for every body on storage nodes (objects, parts and garbage), from one snapshot, in any
	// order.
	References(ctx context.Context, fn func(Reference) error) error

	// SetSharks replaces the node list if it still equals r.Sharks, and reports whether it did. Modified stays. Only
	// garbage may end up with an empty list. SetSharks ends claims on garbage and its parts: the worker removes the
	// body from the old nodes, so the row must stay for the next worker. Adding a node that is being removed returns
	// ErrNodeRemoved.
	SetSharks(ctx context.Context, r Reference, sharks []string) (bool, error)

	// SetFrames sets missing frames if the row still has body r.ID, and reports whether it did. Frames replace the
	// CRC32C. Garbage has no frames.
	SetFrames(ctx context.Context, r Reference, f Frames) (bool, error)
}

// Reference is a body on storage nodes and the row that names it.
type Reference struct {
	Owner   AccountID
	Bucket  BucketID
	Name    string
	Upload  UploadID // set for a part
	Number  int      // part number
	Garbage bool     // garbage, or a part of a garbage upload
	Body
}

// Counters reads and sets usage and quotas.
type Counters interface {
	Usage(ctx context.Context, owner AccountID) (AccountUsage, error)

	// Totals reads the counters of at most MaxPage accounts, in the given order, without bucket counters.
	Totals(ctx context.Context, owners []AccountID) ([]AccountUsage, error)

	// BucketTotals reads the counters of at most MaxPage buckets, in the given order. Missing buckets count 0.
	BucketTotals(ctx context.Context, owner AccountID, b []BucketRef) ([]BucketUsage, error)

	// SetQuota sets a bucket quota, or the account quota if b is zero. It applies at once and deletes nothing.
	SetQuota(ctx context.Context, owner AccountID, b BucketRef, q Quota) error

	// Audit recounts an account's rows and returns the counters that differ. repair corrects them.
	Audit(ctx context.Context, owner AccountID, repair bool) ([]Miscount, error)
}

// Accounts stores accounts and their access keys.
type Accounts interface {
	// CreateAccount returns ErrAccountExists or ErrKeyExists on a conflict.
	CreateAccount(ctx context.Context, a Account, keys ...Key) error

	// Account returns ErrNoAccount for an unknown name.
	Account(ctx context.Context, name string) (Account, error)

	// AccountByID returns ErrNoAccount for an unknown ID.
	AccountByID(ctx context.Context, id AccountID) (Account, error)

	ListAccounts(ctx context.Context, after string, limit int) ([]Account, error)

	// DeleteAccount deletes an account with its keys, or returns ErrAccountHasBucket.
	DeleteAccount(ctx context.Context, id AccountID) error

	// CreateKey returns ErrKeyExists or ErrNoAccount on failure.
	CreateKey(ctx context.Context, k Key) error

	// Key returns ErrNoKey for an unknown ID.
	Key(ctx context.Context, id string) (Key, error)

	// Keys lists an account's keys by ID.
	Keys(ctx context.Context, id AccountID, after string, limit int) ([]Key, error)

	// ListKeys lists the keys of all accounts by ID.
	ListKeys(ctx context.Context, after string, limit int) ([]Key, error)

	// ChangeKey replaces a key's terms. It returns ErrKeyChanged unless they equal from, and ErrNoKey for a revoked
	// or missing key.
	ChangeKey(ctx context.Context, id string, from, to KeyTerms) error

	// RevokeKey returns ErrNoKey for an unknown ID.
	RevokeKey(ctx context.Context, id string, now Moment) error
}

// Nodes stores storage nodes, both configured and added by command.
type Nodes interface {
	// Nodes returns all nodes by ID, including removed nodes.
	Nodes(ctx context.Context) ([]Node, error)

	// SetNode adds or replaces a node.
	SetNode(ctx context.Context, n Node) error

	// ChangeNode changes a node's state if the current state is in from, and returns the previous state, "" for an
	// unknown node. In states NodeRemoving and NodeRemoved, Put, PutPart and SetSharks reject bodies on the node with
	// ErrNodeRemoved.
	ChangeNode(ctx context.Context, id string, from []NodeState, to NodeState) (was NodeState, err error)

	// CheckUnused returns ErrNodeInUse if an object, part or garbage row still names a node in state NodeRemoving. It
	// sees every write that began before that state, and reads all rows without delaying writers.
	CheckUnused(ctx context.Context, id string) error
}

// Leases elect one process at a time, on any machine. A lease that is not extended expires, by the database server's
// clock.
type Leases interface {
	// Lease grants or extends the lease l.Name for l.Holder. If someone else holds it, Lease changes nothing and
	// returns the current lease with its remaining time.
	Lease(ctx context.Context, l Lease) (Lease, error)

	// EndLease ends a lease if holder still holds it.
	EndLease(ctx context.Context, name, holder string) error
}

// Lease is a lease and its holder.
type Lease struct {
	Name    string
	Holder  string // a holder that asks again keeps the lease
	Process string // human-readable description
	Left    time.Duration
}

// ChecksLock reports whether the update needs the database clock and the bucket's object lock.
func (u *Update) ChecksLock(o *Object) bool {
	return u.Lock != nil || !o.Lock.IsZero() && u.changesMetadata()
}

func (u *Update) changesMetadata() bool {
	return u.ContentType != nil || u.Headers != nil || u.Roles != nil || u.Extra != nil || u.Touch
}

// ApplyLock applies the lock change to o, or returns ErrNoLock or *LockedError. now comes from the database clock.
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

// Apply returns the updated object, with the lock set by ApplyLock.
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
