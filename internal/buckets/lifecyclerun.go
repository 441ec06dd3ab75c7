package buckets

import (
	"context"
	"maps"
)

// LifecycleRun is how far the lifecycle rules of a bucket are applied.
type LifecycleRun struct {
	Rules Moment `json:"rules"` // Lifecycle.Changed of the rules that are applied
	Due   Moment `json:"due"`   // when the run continues, or the next one begins

	// LifecycleResult is of the run that has not ended, otherwise of the last one.
	LifecycleResult
	Previous *LifecycleResult `json:"previous,omitempty"` // while a run has not ended: the one before

	LifecyclePosition

	Error string `json:"error,omitempty"` // why the last step failed
}

// LifecyclePosition is the position of a run that has not ended.
type LifecyclePosition struct {
	Phase        LifecyclePhase `json:"phase,omitempty"`
	Prefix       int            `json:"prefix,omitempty"` // index of the prefix, of those of the rules
	After        string         `json:"after,omitempty"`  // name
	AfterID      UploadID       `json:"after_id,omitempty"`
	AfterVersion VersionID      `json:"after_version,omitempty"`
	Newer        int            `json:"newer,omitempty"` // noncurrent versions of the name up to AfterVersion
}

// LifecyclePhase is what a run reads.
type LifecyclePhase int

// Phases of a run, in their order.
const (
	LifecycleObjects LifecyclePhase = iota
	LifecycleVersions
	LifecycleUploads
)

// LifecycleResult counts what a run has done.
type LifecycleResult struct {
	Began Moment `json:"began"`           // what had expired at this time is deleted
	Ended Moment `json:"ended,omitempty"` // 0: it has not ended

	Read    int64             `json:"read"`             // objects and uploads
	Deleted Usage             `json:"deleted"`          // objects and versions
	Aborted int64             `json:"aborted"`          // uploads
	ByRule  map[string]Counts `json:"by_rule,omitzero"` // by the ID of the rule
}

// Counts is what one lifecycle rule has deleted.
type Counts struct {
	Usage
	Uploads int64 `json:"uploads,omitempty"`
}

// Add counts what a rule has deleted.
func (r *LifecycleResult) Add(rule string, c Counts) {
	if r.ByRule == nil {
		r.ByRule = map[string]Counts{}
	}
	was := r.ByRule[rule]
	r.ByRule[rule] = Counts{was.Plus(c.Usage), was.Uploads + c.Uploads}
	r.Deleted, r.Aborted = r.Deleted.Plus(c.Usage), r.Aborted+c.Uploads
}

// IsDue reports whether rules are to be applied at a time.
func (r *LifecycleRun) IsDue(rules *Lifecycle, now Moment) bool {
	return len(rules.Rules) > 0 && (r.Rules != rules.Changed || r.Due <= now)
}

// BucketKey is the position of a bucket among those of all accounts.
type BucketKey struct {
	Owner  AccountID
	Bucket BucketID
}

// Key returns the position of the bucket.
func (b *Bucket) Key() BucketKey { return BucketKey{b.Owner, b.ID} }

// Lifecycles stores how far the lifecycle rules of buckets are applied, and deletes what has expired.
type Lifecycles interface {
	// DueLifecycles reads at most limit buckets of any account whose rules are to be applied at a time, as
	// LifecycleRun.IsDue says: those after a position, in order, without Created. Buckets that are deleted but
	// not yet removed are among them.
	DueLifecycles(ctx context.Context, after BucketKey, now Moment, limit int) ([]Bucket, error)

	// LifecycleRun reads the run of a bucket, which is zero before the first one.
	LifecycleRun(ctx context.Context, b BucketKey) (LifecycleRun, error)

	// SetLifecycleRun replaces the run of a bucket.
	SetLifecycleRun(ctx context.Context, b BucketKey, run LifecycleRun) error

	// Expire deletes at most MaxPage objects of a bucket, each by itself, unless its body, Modified or tags have
	// changed since it was read. In a bucket with versions it makes a delete marker for each, if the quota has place for it.
	// It reports which are deleted.
	Expire(ctx context.Context, owner AccountID, b BucketRef, e Expired) (deleted []bool, err error)

	// Clock returns the time of the database server.
	Clock(ctx context.Context) (Moment, error)
}

// Expired are objects to delete, ordered by name and without repetitions.
type Expired struct {
	Objects []*Object // as List returns them
	Now     Moment
	Notice  *Notice // as in Put
}

// Slice returns a part of the objects.
func (e Expired) Slice(from, to int) Expired {
	e.Objects = e.Objects[from:to]
	return e
}

// SameExpired reports whether an object has the body, Modified and tags of the one that was read.
func SameExpired(current, read *Object) bool {
	return current.ID == read.ID && current.Modified == read.Modified && maps.Equal(current.Tags, read.Tags)
}
