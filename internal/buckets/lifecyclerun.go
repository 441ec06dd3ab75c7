package buckets

import (
	"context"
	"maps"
)

type LifecycleRun struct {
	Rules Moment `json:"rules"`
	Due   Moment `json:"due"` // time of the next step or run

	LifecycleResult
	Previous *LifecycleResult `json:"previous,omitempty"`

	LifecyclePosition

	Error string `json:"error,omitempty"`
}

type LifecyclePosition struct {
	Phase        LifecyclePhase `json:"phase,omitempty"`
	Prefix       int            `json:"prefix,omitempty"` // index into the rules' prefixes
	After        string         `json:"after,omitempty"`
	AfterID      UploadID       `json:"after_id,omitempty"`
	AfterVersion VersionID      `json:"after_version,omitempty"`
	Newer        int            `json:"newer,omitempty"` // noncurrent versions of the name up to AfterVersion
}

type LifecyclePhase int

// Phases in order.
const (
	LifecycleObjects LifecyclePhase = iota
	LifecycleVersions
	LifecycleUploads
)

type LifecycleResult struct {
	Began Moment `json:"began"`           // the rules apply as of this time
	Ended Moment `json:"ended,omitempty"` // 0 if unfinished

	Read    int64             `json:"read"`    // number of objects and uploads
	Deleted Usage             `json:"deleted"` // objects and versions
	Aborted int64             `json:"aborted"`
	ByRule  map[string]Counts `json:"by_rule,omitzero"`
}

type Counts struct {
	Usage
	Uploads int64 `json:"uploads,omitempty"`
}

func (r *LifecycleResult) Add(rule string, c Counts) {
	if r.ByRule == nil {
		r.ByRule = map[string]Counts{}
	}
	was := r.ByRule[rule]
	r.ByRule[rule] = Counts{was.Plus(c.Usage), was.Uploads + c.Uploads}
	r.Deleted, r.Aborted = r.Deleted.Plus(c.Usage), r.Aborted+c.Uploads
}

func (r *LifecycleRun) IsDue(rules *Lifecycle, now Moment) bool {
	return len(rules.Rules) > 0 && (r.Rules != rules.Changed || r.Due <= now)
}

type BucketKey struct {
	Owner  AccountID
	Bucket BucketID
}

func (b *Bucket) Key() BucketKey { return BucketKey{b.Owner, b.ID} }

// Lifecycles stores lifecycle progress and deletes expired objects.
type Lifecycles interface {
	// DueLifecycles lists due buckets of all accounts, including deleted buckets, without Created.
	DueLifecycles(ctx context.Context, after BucketKey, now Moment, limit int) ([]Bucket, error)

	// LifecycleRun returns the zero run before the first run.
	LifecycleRun(ctx context.Context, b BucketKey) (LifecycleRun, error)

	SetLifecycleRun(ctx context.Context, b BucketKey, run LifecycleRun) error

	// Expire deletes at most MaxPage objects, each in its own transaction. It skips objects whose body, Modified or tags
	// have changed since they were read. In versioned buckets it adds delete markers, within the quota.
	Expire(ctx context.Context, owner AccountID, b BucketRef, e Expired) (deleted []bool, err error)

	Clock(ctx context.Context) (Moment, error)
}

// Expired lists the objects to delete, without duplicates and ordered by name.
type Expired struct {
	Objects []*Object
	Now     Moment
	Notice  *Notice
}

func (e Expired) Slice(from, to int) Expired {
	e.Objects = e.Objects[from:to]
	return e
}

// SameExpired reports whether body, Modified and tags have not changed since the object was read.
func SameExpired(current, read *Object) bool {
	return current.ID == read.ID && current.Modified == read.Modified && maps.Equal(current.Tags, read.Tags)
}
