package buckets

import (
	"context"
	"strings"
	"time"
)

// Damage marks a copy of a body that is missing or wrong, until it is repaired.
type Damage struct {
	Copy
	Problem   string
	State     DamageState
	FirstSeen Moment
	LastSeen  Moment

	// Attempts to repair the copy.
	Attempts int
	Next     Moment // when the next attempt is due
	Error    string // of the last attempt, or ""

	// The row that has the body, as far as it is known. The path alone names the owner, the
	// bucket and the body.
	Owner  AccountID
	Bucket BucketID
	ID     ObjectID
	Name   string // "": unknown
	Upload UploadID
	Number int // of the part
}

// Copy is a copy of a body.
type Copy struct {
	Node string
	Path string
}

// DamageState says whether a damaged copy can be repaired.
type DamageState string

// The states of a damaged copy.
const (
	Damaged DamageState = "damaged" // to be repaired
	Lost    DamageState = "lost"    // no good copy of the body was found
)

// NewDamage returns the mark of a copy, with what its path says about the body.
func NewDamage(c Copy, problem string, seen Moment) Damage {
	d := Damage{Copy: c, Problem: problem, State: Damaged, FirstSeen: seen, LastSeen: seen, Next: seen}
	parts := strings.Split(c.Path, "/")
	if len(parts) == 5 && parts[0] == "v2" {
		id, _, _ := strings.Cut(parts[4], ",")
		d.Owner, d.Bucket, d.ID = AccountID(parts[1]), BucketID(parts[2]), ObjectID(id)
	}
	return d
}

// Of adds the row that has the body.
func (d Damage) Of(r *Reference) Damage {
	d.Owner, d.Bucket, d.ID, d.Name, d.Upload, d.Number = r.Owner, r.Bucket, r.ID, r.Name, r.Upload, r.Number
	return d
}

// Pauses between attempts to repair a copy.
const (
	firstPause = time.Minute
	mostPause  = time.Hour
)

// Failed is the mark after a failed attempt. The pause before the next attempt doubles, up
// to an hour.
func (d Damage) Failed(state DamageState, reason string, now Moment) Damage {
	pause := min(firstPause<<min(d.Attempts, 10), mostPause)
	d.Attempts++
	d.State, d.Error, d.Next = state, reason, At(now.Time().Add(pause))
	return d
}

// DamageQuery selects marks.
type DamageQuery struct {
	After Copy        // greater ones, by node and path
	State DamageState // "": all
	Limit int
}

// DamageCount counts the marks of a node with a state.
type DamageCount struct {
	Node   string
	State  DamageState
	Copies int64
	Oldest Moment // when the first of them was seen first
}

// Damages stores marks of damaged copies.
type Damages interface {
	// Mark adds marks. A copy that is marked already gets the new LastSeen, the problem, and
	// the row if it is known; the rest of its mark stays.
	Mark(ctx context.Context, all []Damage) error

	// Marked reads marks in the order of node and path.
	Marked(ctx context.Context, q DamageQuery) ([]Damage, error)

	// DueMarks reads at most limit marks whose next attempt is due, in the order of these
	// attempts.
	DueMarks(ctx context.Context, now Moment, limit int) ([]Damage, error)

	// NoteAttempt stores State, Attempts, Next, Error and the row of a mark that exists.
	NoteAttempt(ctx context.Context, d Damage) error

	// Unmark removes marks, except those that were seen again after d.LastSeen.
	Unmark(ctx context.Context, all []Damage) error

	// CountMarks counts the marks, by node and state.
	CountMarks(ctx context.Context) ([]DamageCount, error)
}

// Scrub is how far the scrubber has read the copies on a node.
type Scrub struct {
	Node  string
	Began Moment // the pass
	After string // the last path; "" with Done: the pass is complete
	Done  bool

	// Of the pass so far.
	Copies int64
	Bytes  int64
	Found  int64 // damaged copies and files without a row
	Total  int64 // bytes of all copies on the node

	Ended Moment // the last complete pass; 0: there was none
}

// Scrubs stores the progress of the scrubber.
type Scrubs interface {
	// Scrubs reads the progress on all nodes, in their order.
	Scrubs(ctx context.Context) ([]Scrub, error)

	// SetScrub stores the progress on a node.
	SetScrub(ctx context.Context, s Scrub) error
}
