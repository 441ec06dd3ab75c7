package buckets

import (
	"context"
	"strings"
	"time"
)

// Damage marks a missing or bad copy until it is repaired.
type Damage struct {
	Copy
	Problem   string
	State     DamageState
	FirstSeen Moment
	LastSeen  Moment

	// Repair attempts so far.
	Attempts int
	Next     Moment // next attempt
	Error    string // last error, or ""

	// The row that names the body, if known. The path alone gives owner, bucket and body.
	Owner  AccountID
	Bucket BucketID
	ID     ObjectID
	Name   string // "": unknown
	Upload UploadID
	Number int // part number
}

// Copy identifies a copy of a body.
type Copy struct {
	Node string
	Path string
}

// DamageState says whether a damaged copy can be repaired.
type DamageState string

// The states of a damaged copy.
const (
	Damaged DamageState = "damaged" // to be repaired
	Lost    DamageState = "lost"    // no good copy was found
)

// NewDamage marks a copy, with the body data from its path.
func NewDamage(c Copy, problem string, seen Moment) Damage {
	d := Damage{Copy: c, Problem: problem, State: Damaged, FirstSeen: seen, LastSeen: seen, Next: seen}
	parts := strings.Split(c.Path, "/")
	if len(parts) == 5 && parts[0] == "v2" {
		id, _, _ := strings.Cut(parts[4], ",")
		d.Owner, d.Bucket, d.ID = AccountID(parts[1]), BucketID(parts[2]), ObjectID(id)
	}
	return d
}

// Of adds the row that names the body.
func (d Damage) Of(r *Reference) Damage {
	d.Owner, d.Bucket, d.ID, d.Name, d.Upload, d.Number = r.Owner, r.Bucket, r.ID, r.Name, r.Upload, r.Number
	return d
}

// Pauses between repair attempts.
const (
	firstPause = time.Minute
	mostPause  = time.Hour
)

// Failed returns the mark after a failed attempt. The pause doubles up to an hour.
func (d Damage) Failed(state DamageState, reason string, now Moment) Damage {
	pause := min(firstPause<<min(d.Attempts, 10), mostPause)
	d.Attempts++
	d.State, d.Error, d.Next = state, reason, At(now.Time().Add(pause))
	return d
}

// DamageQuery selects marks.
type DamageQuery struct {
	After Copy        // start after this node and path
	State DamageState // "": all
	Limit int
}

// DamageCount counts a node's marks in a state.
type DamageCount struct {
	Node   string
	State  DamageState
	Copies int64
	Oldest Moment // when the oldest was first seen
}

// Damages stores marks on damaged copies.
type Damages interface {
	// Mark adds marks. An existing mark gets the new LastSeen, the problem, and the row if known.
	Mark(ctx context.Context, all []Damage) error

	// Marked reads marks ordered by node and path.
	Marked(ctx context.Context, q DamageQuery) ([]Damage, error)

	// DueMarks reads at most limit marks that are due, in order of their next attempt.
	DueMarks(ctx context.Context, now Moment, limit int) ([]Damage, error)

	// NoteAttempt updates State, Attempts, Next, Error and the row of an existing mark.
	NoteAttempt(ctx context.Context, d Damage) error

	// Unmark removes marks unless they were seen again after d.LastSeen.
	Unmark(ctx context.Context, all []Damage) error

	// CountMarks counts marks by node and state.
	CountMarks(ctx context.Context) ([]DamageCount, error)
}

// Scrub is the scrubber's progress on a node.
type Scrub struct {
	Node  string
	Began Moment // start of the pass
	After string // last path; "" with Done: the pass is complete
	Done  bool

	// In this pass:
	Copies int64
	Bytes  int64
	Found  int64 // damaged copies and unreferenced files
	Total  int64 // bytes of all copies on the node

	Ended Moment // last complete pass, or 0
}

// Scrubs stores scrubber progress.
type Scrubs interface {
	// Scrubs reads the progress on all nodes, in node order.
	Scrubs(ctx context.Context) ([]Scrub, error)

	SetScrub(ctx context.Context, s Scrub) error
}
