package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/internal/errcode"
)

// Somebody who can write to a target can delete the newest points, or bring back an older state. Each object then still
// has a good signature. So a server remembers its newest point in the data folder, and a restore can expect a point.

// rememberEvery limits how often a replica, which publishes each second, writes to the data folder.
const rememberEvery = time.Minute

// newestPoint is the newest point that this data folder published.
type newestPoint struct {
	Repository string    `json:"repository"`
	Number     uint64    `json:"number"`
	Time       time.Time `json:"time"`

	// Location is Options.Location, "" if there was none. A point at another location says nothing about this one.
	Location string `json:"location,omitempty"`
}

func (n newestPoint) String() string {
	return fmt.Sprintf("number %d of %s", n.Number, n.Time.UTC().Format(time.RFC3339))
}

func (p Point) newest() newestPoint {
	return newestPoint{Repository: p.Repository, Number: p.Number, Time: p.Time}
}

// remembered returns the stored point, or a zero one.
func (r *Replica) remembered() (n newestPoint, err error) {
	err = readNote(r.opts.Spool, newestNote, &n)
	if n.Location != r.opts.Location {
		return newestPoint{}, err
	}
	return n, err
}

// remember stores a published point.
func (r *Replica) remember(p Point) error {
	n := p.newest()
	n.Location = r.opts.Location
	r.rememberedAt = r.opts.Clock()
	return writeNote(r.opts.Spool, newestNote, n)
}

// rememberIfDue stores a published point, a backup always and a replica once per rememberEvery.
func (r *Replica) rememberIfDue(p Point) error {
	if age := r.opts.Clock().Sub(r.rememberedAt); r.opts.Spool == "" || !r.opts.Once && 0 <= age && age < rememberEvery {
		return nil
	}
	return r.remember(p)
}

// mostForged limits how many points a server reads to find its own newest point.
const mostForged = 100

// findNumber finds the number of the newest point. It does not believe a name: somebody could add a point with the
// largest number.
func (r *Replica) findNumber(ctx context.Context, listed []listedPoint) error {
	before, err := r.remembered()
	if err != nil {
		r.opts.Log.Warn("the number of the newest restore point was not remembered", "error", err)
	}
	var newest Point
	var forged error
	for i, l := range slices.Backward(listed) {
		if newest, err = r.reader().point(ctx, l.name); err == nil {
			break
		}
		if _, isDamaged := errors.AsType[damage](err); !isDamaged || len(listed)-i > mostForged {
			return err
		}
		if forged == nil {
			forged = err
		}
	}
	r.number = newest.Number
	if before.Repository == r.mine.Repository {
		r.number = max(r.number, before.Number)
	}
	switch {
	case forged != nil:
		r.notice(errcode.Wrap(errcode.Denied, "the newest restore point in the target was damaged, or somebody else wrote it", forged))
	case before.Repository != "" && before.Repository != r.mine.Repository:
		r.notice(errcode.Newf(errcode.Denied, "the target holds another repository than before, without the restore point %s: somebody replaced it, or the URL has a new meaning", before))
	case newest.Number < before.Number:
		r.notice(errRolledBack(newest, before))
	}
	return nil
}

// errRolledBack says that newest is the newest point although want was published.
func errRolledBack(newest Point, want newestPoint) error {
	has := "it has none"
	if newest.Number > 0 {
		has = "its newest is " + newest.newest().String()
	}
	return errcode.Newf(errcode.Denied, "the target lacks the restore point %s: %s. Somebody deleted or withholds points, or brought back an older state", want, has)
}

// notice reports a sign that somebody else changed the target. The replica continues, so that it has the newest data.
func (r *Replica) notice(err error) {
	r.opts.Log.Error("somebody else may have changed the replica", "error", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Noticed = err
}

// checkNewest returns an error if the points lack the newest point that this process published.
func checkNewest(points map[string]Point, newest Point) error {
	if _, ok := points[pointName(newest)]; ok {
		return nil
	}
	var point Point
	for _, p := range points {
		if p.Number > point.Number {
			point = p
		}
	}
	return errRolledBack(point, newest.newest())
}

// Expected is a point that a repository must have, or a later one. A zero member expects nothing.
type Expected struct {
	Number uint64    // at least
	Time   time.Time // at least
}

// check returns Denied if the newest point is older than expected.
func (e Expected) check(newest Point) error {
	if newest.Number >= e.Number && !newest.Time.Before(e.Time) {
		return nil
	}
	want := "of " + e.Time.UTC().Format(time.RFC3339)
	if e.Number > 0 {
		want = fmt.Sprintf("number %d", e.Number)
	}
	return errcode.Newf(errcode.Denied, "the newest restore point is %s, expected at least %s: newer points were deleted or are withheld, or somebody brought back an older state", newest.newest(), want)
}
