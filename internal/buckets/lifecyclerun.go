package buckets

import (
	"context"
	"maps"
)

// LifecycleRun is the progress in a bucket, with the last results.
type LifecycleRun struct {
	Rules Moment `json:"rules"` // Lifecycle.Changed when the run began
	Due   Moment `json:"due"`   // time of the next step or run

	LifecycleResult
	Previous *LifecycleResult `json:"previous,omitempty"` // from the last complete run

	LifecyclePosition

	Error string `json:"error,omitempty"` // why the last step failed; "" if it did not
}

// LifecyclePosition is where a run continues.
type LifecyclePosition struct {
	Phase        LifecyclePhase `json:"phase,omitempty"`
	Prefix       int            `json:"prefix,omitempty"` // index into the rules' prefixes
	After        string         `json:"after,omitempty"`  // name, exclusive unless a version or upload ID follows
	AfterID      UploadID       `json:"after_id,omitempty"`
	AfterVersion VersionID      `json:"after_version,omitempty"`
	Newer        int            `json:"newer,omitempty"` // noncurrent versions of the name up to AfterVersion
}

// LifecyclePhase says which rows the run reads.
type LifecyclePhase int

// Phases in order.
const (
	LifecycleObjects LifecyclePhase = iota
	LifecycleVersions
	LifecycleUploads
)

// LifecycleResult counts a run's work.
type LifecycleResult struct {
	Began Moment `json:"began"`           // the rules apply as of this time
	Ended Moment `json:"ended,omitempty"` // 0 if unfinished

	Read    int64             `json:"read"`             // number of objects and uploads
	Deleted Usage             `json:"deleted"`          // objects and versions
	Aborted int64             `json:"aborted"`          // uploads
	ByRule  map[string]Counts `json:"by_rule,omitzero"` // rule ID to counts
}

// Counts is a rule's share.
type Counts struct {
	Usage
	Uploads int64 `json:"uploads,omitempty"`
}

// Add counts c for the rule and in the totals.
func (r *LifecycleResult) Add(rule string, c Counts) {
	if r.ByRule == nil {
		r.ByRule = map[string]Counts{}
	}
	was := r.ByRule[rule]
	r.ByRule[rule] = Counts{was.Plus(c.Usage), was.Uploads + c.Uploads}
	r.Deleted, r.Aborted = r.Deleted.Plus(c.Usage), r.Aborted+c.Uploads
}

// IsDue reports whether a step must run: it is time, or the rules changed since.
func (r *LifecycleRun) IsDue(rules *Lifecycle, now Moment) bool {
	return len(rules.Rules) > 0 && (r.Rules != rules.Changed || r.Due <= now)
}

// BucketKey identifies a bucket without its name.
type BucketKey struct {
	Owner  AccountID
	Bucket BucketID
}

func (b *Bucket) Key() BucketKey { return BucketKey{b.Owner, b.ID} }

// Lifecycles stores lifecycle progress and deletes expired objects.
type Lifecycles interface {
	// DueLifecycles lists all accounts' due buckets after a key, by owner and ID. It includes deleted buckets.
	// Created, Versioning and Lock are not set.
	DueLifecycles(ctx context.Context, after BucketKey, now Moment, limit int) ([]Bucket, error)

	// LifecycleRun returns the zero run before the first run.
	LifecycleRun(ctx context.Context, b BucketKey) (LifecycleRun, error)

	// SetLifecycleRun replaces the progress.
	SetLifecycleRun(ctx context.Context, b BucketKey, run LifecycleRun) error

	// Expire deletes at most MaxPage objects, as Delete does. It skips objects whose body, Modified or tags have
	// changed since they were read. In versioned buckets it adds delete markers, within the quota. deleted has an element
	// for each of e.Objects, in the same order, which tells whether it was deleted. After an error, earlier objects may be
	// deleted. It returns ErrNoBucket.
	Expire(ctx context.Context, owner AccountID, b BucketRef, e Expired) (deleted []bool, err error)

	// Clock returns the database time, which decides which objects expired; SQLite uses the machine's clock.
	Clock(ctx context.Context) (Moment, error)
}

// Expired lists the objects to delete, without duplicates and ordered by name.
type Expired struct {
	Objects []*Object // as they were read
	Now     Moment
	Notice  *Notice // nil if no events are published
}

// Slice returns the objects from index from to index to, with the other fields.
func (e Expired) Slice(from, to int) Expired {
	e.Objects = e.Objects[from:to]
	return e
}

// SameExpired reports whether body, Modified and tags have not changed since the object was read.
func SameExpired(current, read *Object) bool {
	return current.ID == read.ID && current.Modified == read.Modified && maps.Equal(current.Tags, read.Tags)
}
