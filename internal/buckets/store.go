package buckets

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"holdfast/internal/errcode"
)

// Store stores bucket and object metadata. Every method is atomic. storetest defines the contract.
//
// Writes to the same object exclude each other: conditions are checked against the current state, and each replaced
// version becomes Garbage exactly once. Reads never write.
//
// Any method may return ErrNoAccountID or errcode.Unavailable. The method then had no effect, unless the connection
// was lost during a write. Writes to a missing or recreated bucket return ErrNoBucket. Writes that exceed a quota
// return *QuotaError and change nothing.
type Store interface {
	Buckets
	Finder
	Names

	// Put returns the errors of Condition.CheckWrite, and ErrNoLock for a lock in a bucket without object lock. b.ID may
	// be empty for inline bodies. Created and Modified become w.Now. For an imported object, Modified becomes Imported,
	// and so does Superseded in the replaced version. The result may lack the default retention.
	Put(ctx context.Context, owner AccountID, b BucketRef, w Put) (Written, error)

	Get(ctx context.Context, owner AccountID, b BucketID, name string) (Object, error)

	// Find combines Bucket and Get. If only the object is missing, it returns the bucket with ErrNoObject.
	Find(ctx context.Context, owner AccountID, bucket, name string) (Bucket, Object, error)

	// Segments starts with the segment at offset from.
	Segments(ctx context.Context, owner AccountID, u UploadID, from int64, limit int) ([]Segment, error)

	// Update replaces metadata. The result has no Inline body. Update returns ErrMarker for a delete marker, and
	// *LockedError for a locked version, unless only tags change or the lock allows the change.
	Update(ctx context.Context, owner AccountID, b BucketRef, w Update) (Object, error)

	// Delete creates a delete marker in a versioned bucket, even for a missing object. If d.Version is set, it deletes
	// that version, or returns ErrNoVersion or *LockedError. b.ID may be empty.
	Delete(ctx context.Context, owner AccountID, b BucketRef, d Delete) (Deleted, error)

	// DeleteAll deletes each object like Delete, in any order and not atomically. Each result contains its own error
	// and may lack Object.
	DeleteAll(ctx context.Context, owner AccountID, b BucketRef, d Deletions) ([]Deleted, error)

	// List reads a page from one snapshot. It reads about one row per entry, however large the groups are.
	List(ctx context.Context, owner AccountID, b BucketID, q Query) (Page, error)

	// Ping returns errcode.Unavailable if the database is unreachable or its schema has another version.
	Ping(ctx context.Context) error
}

// Buckets stores buckets and their settings.
type Buckets interface {
	// CreateBucket returns an existing bucket with ErrBucketExists. If the account was deleted, it returns ErrNoAccount.
	CreateBucket(ctx context.Context, owner AccountID, b BucketRef, now Moment) (Bucket, error)

	Bucket(ctx context.Context, owner AccountID, name string) (Bucket, error)

	Buckets(ctx context.Context, owner AccountID, q BucketQuery) (page []Bucket, more bool, err error)

	// SetBucket also appends events. It returns ErrPrecondition if LifecycleWas does not match. If the bucket becomes or
	// stays shared (IsShared), it claims its plain name, unless another account's claim is active or rests. If not, the
	// bucket's claim begins to rest.
	SetBucket(ctx context.Context, owner AccountID, b BucketRef, c SettingsChange) error

	// DeleteBucket returns ErrBucketNotEmpty if there are objects. RemoveBucket later aborts incomplete uploads. The
	// bucket's claim on its name begins to rest.
	DeleteBucket(ctx context.Context, owner AccountID, b BucketRef, now Moment) error
}

// Finder finds buckets whose account is unknown.
type Finder interface {
	// BucketsWithCORS returns at most limit buckets with this name that have CORS rules, first the one that claims the
	// name, then by owner. Only BucketRef, Owner and Settings.CORS are set.
	BucketsWithCORS(ctx context.Context, name string, limit int) ([]Bucket, error)

	// FindBuckets lists buckets of all accounts by name and owner. prefix must not be empty.
	FindBuckets(ctx context.Context, prefix string, limit int) ([]Bucket, error)
}

type Put struct {
	Object    Object
	Condition Condition
	Now       Moment
	Notice    *Notice
}

func (p *Put) Stored() Object {
	o := p.Object
	o.Created, o.Modified, o.Version = p.Now, cmp.Or(o.Imported, p.Now), ""
	return o
}

type Delete struct {
	Name      string
	Version   VersionID // "" for the current object
	Condition Condition
	Now       Moment

	// Unchanged, if set, is the object that was read. Delete returns ErrPrecondition if it has changed. The bucket ID is
	// required.
	Unchanged *Object

	// Noncurrent makes Delete return ErrPrecondition if Version is the current version.
	Noncurrent bool

	Bypass bool

	// Imported, if set, is the delete marker's time at the source server. The bucket ID is required.
	Imported Moment

	Notice *Notice
}

func (d *Delete) CheckUnchanged(o *Object) error {
	if was := d.Unchanged; was != nil && (was.ID != o.ID || !was.SameMetadata(o)) {
		return ErrPrecondition
	}
	return nil
}

type Deletions struct {
	All    []Deletion
	Now    Moment
	Notice *Notice
}

func (d *Deletions) Delete(of *Deletion) Delete {
	r := of.Delete(d.Now)
	r.Notice = d.Notice
	return r
}

// Deletion is an object or version to delete in a batch.
type Deletion struct {
	Name    string
	Version VersionID // "" for the current object
	ETag    string    // "" for any, "*" if the object must exist, otherwise its entity tag or ID
	Bypass  bool
}

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

type Written struct {
	Object   Object
	Replaced bool
	Version  VersionID // "" if the bucket is not versioned
}

// Update describes a change of object metadata. Nil fields change nothing.
type Update struct {
	Name        string
	Version     VersionID
	ContentType *string
	Headers     map[string]string
	Roles       *[]string
	Tags        *map[string]string
	Extra       *json.RawMessage // null removes the properties
	Lock        *LockChange
	Touch       bool // set Modified to Now; not used if only tags change
	Imported    bool
	Condition   Condition
	Now         Moment
}

// UploadKey identifies an upload. Only PutPart and Complete need the bucket name.
type UploadKey struct {
	Owner  AccountID
	Bucket BucketRef
	Name   string
	ID     UploadID
}

// Uploads stores multipart uploads. Methods return the same errors as Store. They return ErrNoUpload if the upload
// does not exist or has another object name or bucket.
type Uploads interface {
	CreateUpload(ctx context.Context, owner AccountID, b BucketRef, u Upload) error

	Upload(ctx context.Context, u UploadKey) (Upload, error)

	// PutPart turns a replaced part into garbage.
	PutPart(ctx context.Context, u UploadKey, p Part) error

	Parts(ctx context.Context, u UploadKey, after, limit int) (page []Part, more bool, err error)

	ListUploads(ctx context.Context, owner AccountID, b BucketID, q UploadQuery) (UploadPage, error)

	// Complete returns the errors of Assemble, ErrObjectSize and *ChecksumError. Another call returns the same object
	// while it is current.
	Complete(ctx context.Context, u UploadKey, c Completion) (Written, error)

	Abort(ctx context.Context, u UploadKey, now Moment) error

	// AbortOld aborts uploads of all accounts that began before a time.
	AbortOld(ctx context.Context, before, now Moment, limit int) (int, error)
}

type Completion struct {
	Object    ObjectID
	Parts     []PartRef
	MinPart   int64
	Condition Condition
	Expected  Expected
	Now       Moment
	Notice    *Notice
}

// Collector frees deleted data. A worker claims garbage, removes the bodies, and then removes the rows. All steps are
// idempotent, so another worker can take over after the claim expires.
type Collector interface {
	Holds

	// Claim reserves the oldest unclaimed garbage, or nothing during a hold.
	Claim(ctx context.Context, c Claim) ([]Garbage, error)

	// Claimed reads an unexpired claim's garbage, oldest first. If objects is true, it sets Garbage.Object.
	Claimed(ctx context.Context, claim string, now Moment, objects bool) ([]Garbage, error)

	Unclaim(ctx context.Context, claim string) error

	Waiting(ctx context.Context, before, now Moment) (Waiting, error)

	// UploadBodies reads parts with numbers above after. The upload may be incomplete, complete or garbage.
	UploadBodies(ctx context.Context, owner AccountID, u UploadID, after, limit int) ([]Segment, error)

	// Remove removes the rows that the claim still holds, including part rows.
	Remove(ctx context.Context, claim string, g []Garbage) (int, error)

	// DeletedBuckets lists buckets without garbage that were deleted before a time.
	DeletedBuckets(ctx context.Context, before Moment, limit int) ([]DeletedBucket, error)

	// RemoveBucket aborts at most limit uploads of a deleted bucket. If there were none, it removes the bucket's row,
	// settings and counters, and returns done.
	RemoveBucket(ctx context.Context, b DeletedBucket, now Moment, limit int) (done bool, err error)

	Backlog(ctx context.Context) (rows, bytes int64, oldest Moment, err error)
}

// Holds delay garbage collection during backups.
type Holds interface {
	// Hold stops new claims, so that a backup finds every body that was referenced when the hold began. Earlier claims may
	// still remove bodies. Hold extends a hold with the same ID, and removes expired holds.
	Hold(ctx context.Context, id string, now, expires Moment) error

	// Release ignores an unknown ID.
	Release(ctx context.Context, id string) error

	Held(ctx context.Context, now Moment) (Moment, error)
}

// References tracks the bodies on storage nodes.
type References interface {
	// References calls fn for every object, part and garbage row with a body on nodes, from one snapshot.
	References(ctx context.Context, fn func(Reference) error) error

	// SetSharks replaces the node list if it still equals r.Sharks, and reports whether it did. It does not change
	// Modified. Only garbage may get an empty list. SetSharks ends a claim on garbage, because its worker removes the body
	// only from the old nodes. If a new node is being removed, SetSharks returns ErrNodeRemoved.
	SetSharks(ctx context.Context, r Reference, sharks []string) (bool, error)

	// SetFrames sets missing frames if the row still has body r.ID, and reports whether it did. Frames replace the CRC32C.
	// Garbage has no frames.
	SetFrames(ctx context.Context, r Reference, f Frames) (bool, error)
}

// Reference is a body on storage nodes, and the row that references it.
type Reference struct {
	Owner   AccountID
	Bucket  BucketID
	Name    string
	Upload  UploadID // set if the body is a part
	Number  int
	Garbage bool // also true for the parts of garbage uploads
	Body
}

// Check refuses a row that the server does not write, e.g. from a backup that somebody else wrote: its IDs become paths,
// and its nodes become names of folders.
func (r *Reference) Check() error {
	for _, id := range []string{string(r.Owner), string(r.Bucket), string(r.ID)} {
		if parsed, err := ParseUUID(id); err != nil || parsed != id {
			return errReference
		}
	}
	if len(r.Sharks) == 0 || r.Length < 0 || slices.ContainsFunc(r.Sharks, func(id string) bool { return CheckNodeID(id) != nil }) {
		return errReference
	}
	return nil
}

var errReference = errcode.New(errcode.Internal, "the database has an object with an invalid ID, length or storage node: restore another backup")

type Counters interface {
	Usage(ctx context.Context, owner AccountID) (AccountUsage, error)

	// Totals reads at most MaxPage accounts in the given order, without their buckets.
	Totals(ctx context.Context, owners []AccountID) ([]AccountUsage, error)

	// BucketTotals reads at most MaxPage buckets in the given order. Missing buckets count 0.
	BucketTotals(ctx context.Context, owner AccountID, b []BucketRef) ([]BucketUsage, error)

	// SetQuota sets the quota of a bucket, or the account quota if b is zero.
	SetQuota(ctx context.Context, owner AccountID, b BucketRef, q Quota) error

	// Audit counts an account's rows again and returns wrong counters. If repair is true, it corrects them.
	Audit(ctx context.Context, owner AccountID, repair bool) ([]Miscount, error)
}

type Accounts interface {
	CreateAccount(ctx context.Context, a Account, keys ...Key) error

	Account(ctx context.Context, name string) (Account, error)

	AccountByID(ctx context.Context, id AccountID) (Account, error)

	ListAccounts(ctx context.Context, after string, limit int) ([]Account, error)

	// DeleteAccount also deletes the keys. It may return ErrAccountHasBucket.
	DeleteAccount(ctx context.Context, id AccountID) error

	CreateKey(ctx context.Context, k Key) error

	Key(ctx context.Context, id string) (Key, error)

	Keys(ctx context.Context, id AccountID, after string, limit int) ([]Key, error)

	ListKeys(ctx context.Context, after string, limit int) ([]Key, error)

	// ChangeKey returns ErrKeyChanged if the current terms do not equal from, and ErrNoKey for a revoked key.
	ChangeKey(ctx context.Context, id string, from, to KeyTerms) error

	RevokeKey(ctx context.Context, id string, now Moment) error
}

// Nodes stores storage nodes, both those in the config file and those added by a command.
type Nodes interface {
	// Nodes includes removed nodes.
	Nodes(ctx context.Context) ([]Node, error)

	SetNode(ctx context.Context, n Node) error

	// ChangeNode changes the state if it is in from. It returns the previous state, or "" for an unknown node. Writes to a
	// node in NodeRemoving or NodeRemoved return ErrNodeRemoved.
	ChangeNode(ctx context.Context, id string, from []NodeState, to NodeState) (was NodeState, err error)

	// CheckUnused returns ErrNodeInUse if a row names a node in NodeRemoving. It considers every write that began before
	// the node got that state, and does not delay writers.
	CheckUnused(ctx context.Context, id string) error
}

// Leases elect one process among those on all machines. The database clock decides when a lease expires.
type Leases interface {
	// Lease grants or extends a lease, or returns another holder's lease with its remaining time.
	Lease(ctx context.Context, l Lease) (Lease, error)

	EndLease(ctx context.Context, name, holder string) error
}

type Lease struct {
	Name    string
	Holder  string
	Process string
	Left    time.Duration
}

func (u *Update) ChecksLock(o *Object) bool {
	return u.Lock != nil || !o.Lock.IsZero() && u.changesMetadata()
}

func (u *Update) changesMetadata() bool {
	return u.ContentType != nil || u.Headers != nil || u.Roles != nil || u.Extra != nil || u.Touch
}

// ApplyLock uses the database time now. It returns ErrNoLock or *LockedError.
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

// Apply does not apply the lock change; ApplyLock does.
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
