package buckets

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"holdfast/internal/errcode"
)

// Store keeps bucket and object metadata. Every method is one transaction, except DeleteAll. storetest is the
// executable form: each rule below is a case there.
//
// Writes to the same object exclude each other: conditions are checked against the current state, and each replaced
// version becomes Garbage exactly once. Reads never write. Usage and quota change in the same transaction.
//
// Methods are safe for concurrent use. Any method may return ErrNoAccountID, for an owner that is not a UUID, or
// errcode.Unavailable, also because ctx ended. The method then had no effect, unless the connection was lost or ctx ended
// during a write. Writes to a missing or recreated bucket return ErrNoBucket. Writes that exceed a quota return
// *QuotaError and change nothing.
//
// A BucketRef needs both fields unless the method says otherwise. Reads take a BucketID, which is not checked: in a
// missing bucket they find nothing. Times that decide about conditions, expiry and order come from the caller (Now).
// Locks are an exception: the database clock decides when they end.
//
// Maps, slices and pointers in parameters are neither changed nor kept, but Written.Object and the result of Update share
// those of the request. A Bucket from Bucket or Find may be cached: nobody may change its maps and slices, so clone them
// first. Other results belong to the caller. Lists are ordered as their methods say. Where a method does not return more,
// fewer results than limit mean that none follow. Limits are at least 1.
//
// Uploads, Collector, References, Counters, Accounts, Nodes, Leases, Events, Lifecycles, Damages and Scrubs keep to the
// same rules.
type Store interface {
	Buckets
	Finder
	Names

	// Put returns the errors of Condition.CheckWrite, and ErrNoLock for a lock in a bucket without object lock. b.ID may
	// be empty for inline bodies. Created and Modified become w.Now. For an imported object, Modified becomes Imported,
	// and so does Superseded in the replaced version. The result may lack the default retention.
	Put(ctx context.Context, owner AccountID, b BucketRef, w Put) (Written, error)

	// Get reads the current object with Inline, Frames and CRC32C. It returns ErrNoObject if there is no object, no
	// such bucket, or if a delete marker is current.
	Get(ctx context.Context, owner AccountID, b BucketID, name string) (Object, error)

	// Find combines Bucket and Get in one round trip, with the same results: the object has its Inline body. If only the
	// object is missing, it returns the bucket with ErrNoObject. A later Get may find a newer object. SQLite takes the
	// bucket from its cache, as Bucket does.
	Find(ctx context.Context, owner AccountID, bucket, name string) (Bucket, Object, error)

	// Segments lists at most limit parts that form a completed multipart body, in order. The first contains the byte at
	// offset from. The result is empty from the end on, and for an unknown upload.
	Segments(ctx context.Context, owner AccountID, u UploadID, from int64, limit int) ([]Segment, error)

	// Update replaces the metadata for the current object, or for u.Version, and counts nothing. The result has no Inline
	// body. It returns errors from Condition.CheckWrite, ErrNoObject or ErrNoVersion for a missing object or version,
	// and ErrMarker for a delete marker. It returns *LockedError for a locked version, unless only tags change or the
	// lock allows the change, and ErrNoLock for a lock in a bucket without object lock.
	Update(ctx context.Context, owner AccountID, b BucketRef, w Update) (Object, error)

	// Delete removes an object without versions, and its body becomes garbage. In a versioned bucket it creates a
	// delete marker, even for a missing object; the marker counts as an object with 0 bytes. If d.Version is set, it
	// deletes that version, or returns ErrNoVersion or *LockedError. The next older version then becomes current.
	// Without versions, a missing object is ErrNoObject. b.ID may be empty.
	Delete(ctx context.Context, owner AccountID, b BucketRef, d Delete) (Deleted, error)

	// DeleteAll deletes each object like Delete, in any order and not atomically. The result has an element for each of
	// d.All, in the same order, with its own error and perhaps without Object. If d.All contains an object twice, one of
	// them finds the effect of the other. DeleteAll itself fails only if nothing was tried.
	DeleteAll(ctx context.Context, owner AccountID, b BucketRef, d Deletions) ([]Deleted, error)

	// List reads a page from one snapshot. It reads about one row per entry, however large the groups are. A missing
	// bucket is an empty page.
	List(ctx context.Context, owner AccountID, b BucketID, q Query) (Page, error)

	// Ping returns errcode.Unavailable if the database is unreachable or its schema has another version.
	Ping(ctx context.Context) error
}

// Buckets stores buckets and their settings.
type Buckets interface {
	// CreateBucket stores an empty bucket without versions; the caller chose b.ID. It returns an existing bucket with
	// this name together with ErrBucketExists. If the account was deleted, it returns ErrNoAccount.
	CreateBucket(ctx context.Context, owner AccountID, b BucketRef, now Moment) (Bucket, error)

	// Bucket returns ErrNoBucket if the account has no bucket with this name. SQLite answers from a cache: changes by
	// other processes, such as commands, show after KeyDelay.
	Bucket(ctx context.Context, owner AccountID, name string) (Bucket, error)

	// Buckets lists by name, in byte order. more means that the page is full and that buckets follow it.
	Buckets(ctx context.Context, owner AccountID, q BucketQuery) (page []Bucket, more bool, err error)

	// SetBucket also appends events. It returns ErrPrecondition if LifecycleWas does not match. If the bucket becomes
	// or stays shared (IsShared), it claims its plain name, unless another account's claim is active or rests. If not,
	// the bucket's claim begins to rest. SetBucket replaces only the settings that c sets.
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

// Put writes a whole object whose body is already stored, either in Object.Inline or on the nodes in
// Object.Sharks.
type Put struct {
	// Object needs Name, Body and metadata. The store ignores Created, Modified and Version.
	Object    Object
	Condition Condition
	Now       Moment  // when the write happens
	Notice    *Notice // nil if the write publishes no events
}

// Stored returns the object as the row gets it, except for the version ID and the default retention, which only the
// transaction knows.
func (p *Put) Stored() Object {
	o := p.Object
	o.Created, o.Modified, o.Version = p.Now, cmp.Or(o.Imported, p.Now), ""
	return o
}

// Delete names the object or version to delete, and the conditions for it.
type Delete struct {
	Name      string
	Version   VersionID // "" for the current object
	Condition Condition // checked against the current object, or against Version if that is set
	Now       Moment    // when the body's grace period begins

	// Unchanged, if set, is the object that was read. Delete returns ErrPrecondition if it has changed. The bucket ID is
	// required.
	Unchanged *Object

	// Noncurrent makes Delete return ErrPrecondition if Version is the current version.
	Noncurrent bool

	// Bypass allows deleting a version in governance mode. The caller has checked the right to do so.
	Bypass bool

	// Imported, if set, is the delete marker's time at the source server. The bucket ID is required.
	Imported Moment

	Notice *Notice // nil if the delete publishes no events
}

// CheckUnchanged returns ErrPrecondition if o differs from d.Unchanged in body or metadata. Backends call it in the
// transaction.
func (d *Delete) CheckUnchanged(o *Object) error {
	if was := d.Unchanged; was != nil && (was.ID != o.ID || !was.SameMetadata(o)) {
		return ErrPrecondition
	}
	return nil
}

// Deletions is a batch, such as a DeleteObjects request.
type Deletions struct {
	All    []Deletion // at most 1,000 from S3; the store sets no limit; may be empty
	Now    Moment
	Notice *Notice // shared by all; nil if no delete publishes events
}

// Delete returns the request for a single element.
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
	Bypass  bool      // as in Delete
}

// Delete returns the request with the condition that ETag stands for.
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

// Written is a Put's or Complete's result.
type Written struct {
	Object   Object    // as stored, with Inline; may lack the default retention
	Replaced bool      // an object with this name existed; a delete marker does not count
	Version  VersionID // "" if the bucket is not versioned
}

// Update describes a change of object metadata. Nil fields change nothing.
type Update struct {
	Name        string
	Version     VersionID          // "" for the current object
	ContentType *string            // nil: unchanged
	Headers     map[string]string  // all headers; nil: unchanged
	Roles       *[]string          // all roles; nil: unchanged
	Tags        *map[string]string // all tags; a pointer to nil removes them
	Extra       *json.RawMessage   // null removes the properties
	Lock        *LockChange        // nil: unchanged
	Class       *StorageClass      // nil: unchanged
	Touch       bool               // set Modified to Now; not used if only tags change
	Imported    bool               // an import sets these tags, so ImportedTags becomes their sum
	Condition   Condition          // checked before anything changes
	Now         Moment             // becomes Modified with Touch
}

// UploadKey identifies an upload. Only PutPart and Complete need the bucket name.
type UploadKey struct {
	Owner  AccountID
	Bucket BucketRef // the ID is always required
	Name   string    // object name given when the upload began
	ID     UploadID
}

// Uploads stores multipart uploads. Methods return the same errors as Store. They return ErrNoUpload if the upload does
// not exist or has another object name or bucket. Parts count towards the byte quotas when they are stored; the
// object counts when the upload is completed.
type Uploads interface {
	// CreateUpload stores an upload under u.ID, which must be new (NewUploadID). It does not check conditions; Complete
	// does.
	CreateUpload(ctx context.Context, owner AccountID, b BucketRef, u Upload) error

	// Upload reads an incomplete upload.
	Upload(ctx context.Context, u UploadKey) (Upload, error)

	// PutPart stores or replaces a part. A replaced part becomes garbage, and only the difference in bytes is checked
	// against the quotas.
	PutPart(ctx context.Context, u UploadKey, p Part) error

	// Parts lists at most limit parts with numbers above after, by number. more means that others follow.
	Parts(ctx context.Context, u UploadKey, after, limit int) (page []Part, more bool, err error)

	// ListUploads lists incomplete uploads by name and then by age, oldest first.
	ListUploads(ctx context.Context, owner AccountID, b BucketID, q UploadQuery) (UploadPage, error)

	// Complete makes the listed parts an object, like Put, and turns the other parts into garbage. It returns the same
	// errors as Assemble and Put, ErrObjectSize and *ChecksumError. Another call returns the same object while it is
	// current, with Replaced false.
	Complete(ctx context.Context, u UploadKey, c Completion) (Written, error)

	// Abort turns the upload with all parts into garbage and frees their bytes. It works in a deleted bucket too.
	Abort(ctx context.Context, u UploadKey, now Moment) error

	// MarkRestored sets Properties.Restored of all uploads of all accounts.
	MarkRestored(ctx context.Context) error

	// AbortOld aborts at most limit uploads that began before a time, for all accounts, oldest first. It returns their
	// number; fewer than limit mean that none is left.
	AbortOld(ctx context.Context, before, now Moment, limit int) (int, error)
}

// Completion is a CompleteMultipartUpload request.
type Completion struct {
	Object    ObjectID  // ID for the new object
	Parts     []PartRef // in ascending order
	MinPart   int64     // minimum bytes per part, except the last
	Condition Condition // checked against the current object
	Expected  Expected  // size and checksum that the client expects
	Verified  bool      // the bodies of the parts of a restored upload exist
	Now       Moment
	Notice    *Notice // nil if the write publishes no events
}

// Collector frees deleted data. A worker claims garbage, removes the bodies, and then removes the rows. All steps are
// idempotent, so another worker can take over after the claim expires.
type Collector interface {
	Holds

	// Claim reserves the oldest unclaimed garbage until c.Expires, and returns it. It returns nothing during a hold or if
	// nothing is due. Expired claims count as none. Garbage that c.ID holds already is not returned again: see Claimed.
	Claim(ctx context.Context, c Claim) ([]Garbage, error)

	// Claimed reads an unexpired claim's garbage, oldest first. If objects is true, it sets Garbage.Object.
	Claimed(ctx context.Context, claim string, now Moment, objects bool) ([]Garbage, error)

	// Unclaim gives garbage back before the claim expires. It ignores an unknown claim.
	Unclaim(ctx context.Context, claim string) error

	// Waiting counts all garbage. Rows deleted after before are in their grace period. Held stays 0.
	Waiting(ctx context.Context, before, now Moment) (Waiting, error)

	// UploadBodies reads at most limit parts with numbers above after, without Start and inline bodies. The upload may be
	// incomplete, complete or garbage.
	UploadBodies(ctx context.Context, owner AccountID, u UploadID, after, limit int) ([]Segment, error)

	// Remove removes those rows of g that the claim still holds, including part rows, and returns how many garbage rows it
	// removed; it ignores the others. The bodies must be gone already: nothing else names them.
	Remove(ctx context.Context, claim string, g []Garbage) (int, error)

	// DeletedBuckets lists buckets without garbage that were deleted at or before a time, oldest first.
	DeletedBuckets(ctx context.Context, before Moment, limit int) ([]DeletedBucket, error)

	// RemoveBucket aborts at most limit uploads of a deleted bucket. If there were none, it removes the bucket's row,
	// settings and counters, and returns done.
	RemoveBucket(ctx context.Context, b DeletedBucket, now Moment, limit int) (done bool, err error)

	// Backlog counts all garbage, due or not. oldest is the earliest deletion, or 0.
	Backlog(ctx context.Context) (rows, bytes int64, oldest Moment, err error)
}

// Holds delay garbage collection during backups.
type Holds interface {
	// Hold stops new claims, so that a backup finds every body that was referenced when the hold began. Earlier claims may
	// still remove bodies. Hold extends a hold with the same ID, which is unique for each backup, and removes expired holds.
	Hold(ctx context.Context, id string, now, expires Moment) error

	// Release ignores an unknown ID.
	Release(ctx context.Context, id string) error

	// Held returns when the last hold expires, or 0 without holds.
	Held(ctx context.Context, now Moment) (Moment, error)
}

// References tracks the bodies on storage nodes.
type References interface {
	// References calls fn for every object, part and garbage row with a body on nodes, from one snapshot, in no fixed order
	// and one at a time. It ends with fn's first error, and returns that. fn may keep the Reference. While it runs, a
	// database connection is in use, so fn must be fast.
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

// Counters reads and repairs usage. Writes keep the counters exact in their own transactions; deleted buckets count
// until their uploads are aborted.
type Counters interface {
	// Usage returns an account's totals and all its buckets by name. An unknown account counts 0.
	Usage(ctx context.Context, owner AccountID) (AccountUsage, error)

	// Totals reads at most MaxPage accounts in the given order, without their buckets. Unknown accounts count 0.
	Totals(ctx context.Context, owners []AccountID) ([]AccountUsage, error)

	// BucketTotals reads at most MaxPage buckets in the given order. Missing buckets count 0.
	BucketTotals(ctx context.Context, owner AccountID, b []BucketRef) ([]BucketUsage, error)

	// SetQuota sets a bucket's quota, or the account quota if b is zero. A quota below the usage is allowed: only
	// writes that grow are refused. It returns ErrNoBucket or ErrNoAccount.
	SetQuota(ctx context.Context, owner AccountID, b BucketRef, q Quota) error

	// Audit counts an account's rows again and returns wrong counters, first the account's and then by bucket ID. If repair
	// is true, it corrects them, and excludes other writes meanwhile.
	Audit(ctx context.Context, owner AccountID, repair bool) ([]Miscount, error)
}

// Accounts stores accounts and access keys. Lists are ordered and begin after a name or ID; "" begins at the start.
type Accounts interface {
	// CreateAccount stores an account, also its Quota, with its first keys. It returns ErrAccountExists if the name or ID
	// is used, and ErrKeyExists. Nothing is stored after an error.
	CreateAccount(ctx context.Context, a Account, keys ...Key) error

	// Account returns ErrNoAccount for an unknown name.
	Account(ctx context.Context, name string) (Account, error)

	// AccountByID returns ErrNoAccount for an unknown or deleted account.
	AccountByID(ctx context.Context, id AccountID) (Account, error)

	// ListAccounts lists by name.
	ListAccounts(ctx context.Context, after string, limit int) ([]Account, error)

	// DeleteAccount also deletes the keys. It returns ErrNoAccount, or ErrAccountHasBucket while a bucket exists, even
	// an empty bucket. Deleted buckets that wait for the collector do not prevent it.
	DeleteAccount(ctx context.Context, id AccountID) error

	// CreateKey returns ErrNoAccount or ErrKeyExists. IDs are unique across accounts.
	CreateKey(ctx context.Context, k Key) error

	// Key returns ErrNoKey for an unknown ID. A revoked key is not an error: see Key.Revoked.
	Key(ctx context.Context, id string) (Key, error)

	// Keys lists an account's keys by ID, with those that are revoked. It returns ErrNoAccount.
	Keys(ctx context.Context, id AccountID, after string, limit int) ([]Key, error)

	// ListKeys lists all accounts' keys by ID.
	ListKeys(ctx context.Context, after string, limit int) ([]Key, error)

	// ChangeKey returns ErrKeyChanged if the current terms do not equal from, and ErrNoKey for a revoked key.
	ChangeKey(ctx context.Context, id string, from, to KeyTerms) error

	// RevokeKey returns ErrNoKey for an unknown ID. A second call changes nothing: the first time stays.
	RevokeKey(ctx context.Context, id string, now Moment) error
}

// Nodes stores storage nodes, both those in the config file and those added by a command.
type Nodes interface {
	// Nodes lists by ID, and includes removed nodes.
	Nodes(ctx context.Context) ([]Node, error)

	// SetNode adds a node or replaces all its fields.
	SetNode(ctx context.Context, n Node) error

	// ChangeNode changes the state if from contains it; otherwise nothing changes. It returns the previous state, or "" for
	// an unknown node. Writes to a node in NodeRemoving or NodeRemoved return ErrNodeRemoved.
	ChangeNode(ctx context.Context, id string, from []NodeState, to NodeState) (was NodeState, err error)

	// CheckUnused returns ErrNodeInUse if a row names a node in NodeRemoving. It considers every write that began before
	// the node got that state, and does not delay writers.
	CheckUnused(ctx context.Context, id string) error
}

// Leases elect one process among those on all machines. The database clock decides when a lease expires; SQLite uses the
// machine's clock.
type Leases interface {
	// Lease grants a free lease to l.Holder for l.Left, or extends the holder's own, also if another process with this
	// Holder took it, and returns l. Otherwise it returns the other holder's lease with the remaining time. Compare Holder
	// to see who holds it.
	Lease(ctx context.Context, l Lease) (Lease, error)

	// EndLease frees the lease if holder still has it.
	EndLease(ctx context.Context, name, holder string) error
}

// Lease lets a process do a job alone, such as the collector or the scrub.
type Lease struct {
	Name    string        // job
	Holder  string        // the data folder and the machine; the same for all commands there
	Process string        // process ID and host name, for operators
	Left    time.Duration // requested or remaining time
}

// ChecksLock reports whether ApplyLock must be called, with the database time. Backends that need a round trip for the
// time skip it otherwise.
func (u *Update) ChecksLock(o *Object) bool {
	return u.Lock != nil || !o.Lock.IsZero() && u.changesMetadata()
}

// changesMetadata reports whether anything but tags and the lock changes. S3 lets clients tag a locked version.
func (u *Update) changesMetadata() bool {
	return u.ContentType != nil || u.Headers != nil || u.Roles != nil || u.Extra != nil || u.Class != nil || u.Touch
}

// ApplyLock checks and changes the lock in o. b is the bucket's lock, and now the database time. It returns
// ErrNoLock or *LockedError.
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

// Apply returns o with the change. It does not apply the lock change; ApplyLock does.
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
	if u.Class != nil {
		o.Class = *u.Class
	}
	if u.Touch {
		o.Modified = u.Now
	}
	return o
}
