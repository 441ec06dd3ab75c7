package buckets

import (
	"context"
	"strings"
	"time"
)

// Damage is a record of a missing or corrupt copy.
type Damage struct {
	Copy
	Problem   string      // for operators, e.g. why a chunk is corrupt
	State     DamageState // Damaged at first
	FirstSeen Moment
	LastSeen  Moment

	Attempts int    // failed repairs
	Next     Moment // when the next repair is due
	Error    string // why the last repair failed

	// The row, if known.
	Owner  AccountID
	Bucket BucketID
	ID     ObjectID
	Name   string
	Upload UploadID
	Number int
}

// Copy locates a copy of a body.
type Copy struct {
	Node string // storage node ID
	Path string // BodyPath
}

// DamageState says whether a good copy is left.
type DamageState string

const (
	Damaged DamageState = "damaged" // another copy may be good, so repairs go on
	Lost    DamageState = "lost"    // no good copy was found at the last attempt
)

// NewDamage returns a record whose first repair is due at once. It takes the IDs from a BodyPath; Of
// adds the rest.
func NewDamage(c Copy, problem string, seen Moment) Damage {
	d := Damage{Copy: c, Problem: problem, State: Damaged, FirstSeen: seen, LastSeen: seen, Next: seen}
	parts := strings.Split(c.Path, "/")
	if len(parts) == 5 && parts[0] == "v2" {
		id, _, _ := strings.Cut(parts[4], ",")
		d.Owner, d.Bucket, d.ID = AccountID(parts[1]), BucketID(parts[2]), ObjectID(id)
	}
	return d
}

// Of adds the object or part whose row references the body.
func (d Damage) Of(r *Reference) Damage {
	d.Owner, d.Bucket, d.ID, d.Name, d.Upload, d.Number = r.Owner, r.Bucket, r.ID, r.Name, r.Upload, r.Number
	return d
}

const (
	// Delays between repairs, from the first to the longest.
	firstPause = time.Minute
	mostPause  = time.Hour
)

// Failed returns the record after a failed repair. The delay doubles up to an hour.
func (d Damage) Failed(state DamageState, reason string, now Moment) Damage {
	pause := min(firstPause<<min(d.Attempts, 10), mostPause)
	d.Attempts++
	d.State, d.Error, d.Next = state, reason, At(now.Time().Add(pause))
	return d
}

// DamageQuery selects damage records by node and path.
type DamageQuery struct {
	After Copy        // exclusive
	State DamageState // "" for any state
	Limit int
}

// DamageCount counts records for metrics.
type DamageCount struct {
	Node   string
	State  DamageState
	Copies int64
	Oldest Moment // earliest FirstSeen
}

// Damages stores which copies are missing or corrupt. The scrub, audits and reads mark them, and repairs remove the
// marks.
type Damages interface {
	// Mark adds damage records; all may be empty. For existing records, with the same node and path, it updates LastSeen,
	// the problem and the row; attempts and state stay.
	Mark(ctx context.Context, all []Damage) error

	// Marked lists records by node and path.
	Marked(ctx context.Context, q DamageQuery) ([]Damage, error)

	// DueMarks returns at most limit records with Next at or before now, soonest first.
	DueMarks(ctx context.Context, now Moment, limit int) ([]Damage, error)

	// NoteAttempt stores a repair's result: State, Attempts, Next, Error and the row. It ignores removed records.
	NoteAttempt(ctx context.Context, d Damage) error

	// Unmark removes records, unless the damage was seen after d.LastSeen.
	Unmark(ctx context.Context, all []Damage) error

	// CountMarks counts by node and state.
	CountMarks(ctx context.Context) ([]DamageCount, error)
}

// Scrub is the progress through every copy on a node.
type Scrub struct {
	Node  string
	Began Moment
	After string // last path; empty if Done
	Done  bool

	// Counts of this pass.
	Copies int64 // read so far
	Bytes  int64 // read so far
	Found  int64 // damaged copies
	Total  int64 // bytes on the node that rows refer to, counted in the last round

	Ended Moment // when the last pass ended; 0 if none did
}

// Scrubs stores how far scrubs are, so that a pass survives a restart.
type Scrubs interface {
	// Scrubs lists by node.
	Scrubs(ctx context.Context) ([]Scrub, error)

	// SetScrub replaces the progress for s.Node.
	SetScrub(ctx context.Context, s Scrub) error
}
