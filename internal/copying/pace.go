package copying

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"holdfast/internal/db/rows"
)

// Estimate is the progress of a copy's passes.
type Estimate struct {
	Left     int64         // changed keys to copy
	Copied   float64       // keys per second
	Arriving float64       // keys per second
	Refused  float64       // refused share of writes, 0 to 1
	Within   time.Duration // rest of FinishWithin; 0 means no limit
}

// End returns false if the copy never catches up.
func (e Estimate) End() (time.Duration, bool) {
	if e.Left == 0 {
		return 0, true
	}
	d := seconds(float64(e.Left) / (e.Copied - e.Arriving))
	return d, d > 0 && d < longestEstimate
}

// alone returns how long the rest takes if no more keys change, as when the service is read-only.
func (e Estimate) alone() time.Duration {
	if e.Left == 0 {
		return 0
	}
	return cmp.Or(seconds(float64(e.Left)/e.Copied), longestEstimate)
}

func (e Estimate) String() string {
	text := fmt.Sprintf("%d changed rows left, %.0f/s copied, %.0f/s more change: ", e.Left, e.Copied, e.Arriving)
	if d, ok := e.End(); ok {
		text += fmt.Sprintf("%s left", d.Round(time.Second))
	} else {
		text += "the end is not in sight"
	}
	if e.Refused > 0 {
		text += fmt.Sprintf(", %.0f%% of writes are refused", 100*e.Refused)
	}
	return text
}

const (
	longestEstimate = 30 * 24 * time.Hour

	paceEvery = 5 * time.Second // between estimates

	mostRefused  = 0.75 // share of writes; the rest of each period (a second) is for large writes
	leastRefused = 0.05

	// lateAfter is the share of the remaining time for copying the remaining keys while the service is read-only. The
	// comparison takes the other part.
	lateAfter = 0.8
)

// seconds returns 0 for a number that is no duration: NaN, negative, or above longestEstimate.
func seconds(n float64) time.Duration {
	if math.IsNaN(n) || n <= 0 || n > longestEstimate.Seconds() {
		return 0
	}
	return time.Duration(n * float64(time.Second))
}

// isLate reports that the last pass must begin now to end within FinishWithin.
func (e Estimate) isLate() bool {
	return e.Within != 0 && e.alone() >= time.Duration(lateAfter*float64(e.Within))
}

// refuse returns the share of writes that must be refused so that the copy ends in time. If there are fewer writes,
// fewer keys change.
func (e Estimate) refuse() float64 {
	if e.Within == 0 {
		return 0
	}
	end, isInSight := e.End()
	switch {
	case isInSight && end < e.Within/2:
		return max(e.Refused-2*leastRefused, 0)
	case isInSight && end < time.Duration(lateAfter*float64(e.Within)):
		return e.Refused
	}
	wanted := e.Copied - float64(e.Left)/(lateAfter*e.Within.Seconds())
	part := 1 - (1-e.Refused)*max(wanted, 0)/max(e.Arriving, 1)
	return min(max(part, e.Refused+leastRefused), mostRefused)
}

// pace measures passes and slows writers.
type pace struct {
	c      *Copy
	at     time.Time // when the latest estimate was made
	left   int64     // keys left at that time
	copied int       // keys copied since
	said   time.Time // when the latest report was made
}

// newPace begins to measure.
func (c *Copy) newPace(ctx context.Context) (*pace, error) {
	left, err := c.changesLeft(ctx)
	return &pace{c: c, at: time.Now(), left: left, said: time.Now()}, err
}

// passed counts a pass with n keys. isLate means that the last pass must begin, however many keys are left.
func (p *pace) passed(ctx context.Context, n int) (isLate bool, err error) {
	c := p.c
	if p.copied += n; time.Since(p.at) < c.PaceEvery && !c.isOver() {
		return false, nil
	}
	left, err := c.changesLeft(ctx)
	if err != nil {
		return false, err
	}
	took := time.Since(p.at).Seconds()
	e := Estimate{
		Left: left, Copied: float64(p.copied) / took, Arriving: float64(max(left-p.left+int64(p.copied), 0)) / took,
		Refused: c.refused.of(), Within: c.within(),
	}
	p.at, p.left, p.copied = time.Now(), left, 0
	if isLate = e.isLate(); !isLate {
		if err := c.slow(ctx, func(r *refusal) { r.byTime = e.refuse() }); err != nil {
			return false, err
		}
		e.Refused = c.refused.of()
	}
	p.report(e, isLate)
	return isLate, nil
}

// report prints a line at most every reportEvery.
func (p *pace) report(e Estimate, isLate bool) {
	if p.c.Estimate != nil {
		p.c.Estimate(e)
	}
	switch {
	case isLate:
		p.c.reportf("%s: the rest is copied while the service is read-only, to end in time", e)
	case time.Since(p.said) > reportEvery:
		p.said = time.Now()
		hint := ""
		if _, ok := e.End(); !ok && e.Within == 0 {
			hint = "; --finish-within slows writers"
		}
		p.c.reportf("%s%s", e, hint)
	}
}

// within returns how much FinishWithin leaves, at least 1 ns; 0 without a limit.
func (c *Copy) within() time.Duration {
	if c.FinishWithin == 0 {
		return 0
	}
	return max(c.FinishWithin-time.Since(c.begun), 1)
}

func (c *Copy) isOver() bool { return c.FinishWithin != 0 && time.Since(c.begun) >= c.FinishWithin }

// refusal says how many writes to refuse, 0 to 1, for two reasons; the greater one applies.
type refusal struct {
	mu     sync.Mutex
	bySize float64 // because the log is long
	byTime float64 // because of FinishWithin
	set    float64 // as the source applies it
}

// of returns the applied share.
func (r *refusal) of() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.set
}

// slow changes the share and applies it to the source.
func (c *Copy) slow(ctx context.Context, change func(*refusal)) error {
	r := &c.refused
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
	part := max(r.bySize, r.byTime)
	if part == 0 && r.set == 0 {
		return nil
	}
	err := c.source.Slow(ctx, c.Service, time.Duration(part*float64(rows.SlowPeriod)))
	if errors.Is(err, errors.ErrUnsupported) { // writers cannot be slowed; the last pass still begins in time
		return nil
	}
	if err == nil {
		r.set = part
	}
	return err
}

// errFull ends the copy because of MaxChanges.
var errFull = errors.New("too many rows change")

// limitLog slows writers above half MaxChanges, the more the longer the log is, and returns errFull at MaxChanges. n
// is the log's length.
func (c *Copy) limitLog(ctx context.Context, n int64) error {
	if n >= c.MaxChanges {
		return fmt.Errorf("%s: %w: %d wait to be copied, at most %d are allowed: run the command again when fewer rows change, or with a larger --max-changes; the service continues, and changes are no longer logged",
			c.Service, errFull, n, c.MaxChanges)
	}
	part := mostRefused * max(2*float64(n)/float64(c.MaxChanges)-1, 0)
	return c.slow(ctx, func(r *refusal) { r.bySize = part })
}
