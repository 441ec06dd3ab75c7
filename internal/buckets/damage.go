package buckets

import (
	"context"
	"strings"
	"time"
)

// Damage is a record of a missing or corrupt copy.
type Damage struct {
	Copy
	Problem   string
	State     DamageState
	FirstSeen Moment
	LastSeen  Moment

	Attempts int
	Next     Moment
	Error    string

	// The row, if known.
	Owner  AccountID
	Bucket BucketID
	ID     ObjectID
	Name   string
	Upload UploadID
	Number int
}

type Copy struct {
	Node string
	Path string
}

type DamageState string

const (
	Damaged DamageState = "damaged"
	Lost    DamageState = "lost"
)

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

type DamageQuery struct {
	After Copy
	State DamageState // "" for any state
	Limit int
}

type DamageCount struct {
	Node   string
	State  DamageState
	Copies int64
	Oldest Moment
}

type Damages interface {
	// Mark adds damage records. For existing records, it updates LastSeen, the problem and the row.
	Mark(ctx context.Context, all []Damage) error

	Marked(ctx context.Context, q DamageQuery) ([]Damage, error)

	// DueMarks returns due records, soonest first.
	DueMarks(ctx context.Context, now Moment, limit int) ([]Damage, error)

	NoteAttempt(ctx context.Context, d Damage) error

	// Unmark removes records, unless the damage was seen after d.LastSeen.
	Unmark(ctx context.Context, all []Damage) error

	CountMarks(ctx context.Context) ([]DamageCount, error)
}

type Scrub struct {
	Node  string
	Began Moment
	After string // last path; empty if Done
	Done  bool

	// Counts of this pass.
	Copies int64
	Bytes  int64
	Found  int64
	Total  int64

	Ended Moment
}

type Scrubs interface {
	Scrubs(ctx context.Context) ([]Scrub, error)

	SetScrub(ctx context.Context, s Scrub) error
}
