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

// Estimate is how the passes of a copy get on.
type Estimate struct {
	Left     int64         // keys that have changed and are not copied yet
	Copied   float64       // keys in a second
	Arriving float64       // keys in a second that have changed and were not in the log
	Refused  float64       // part of the writes, from 0 to 1, that are refused
	Within   time.Duration // that is left of FinishWithin; 0: there is no limit
}

// End returns when everything will be copied, and false if that is not in sight.
func (e Estimate) End() (time.Duration, bool) {
	if e.Left == 0 {
		return 0, true
	}
	d := seconds(float64(e.Left) / (e.Copied - e.Arriving))
	return d, d > 0 && d < longestEstimate
}

// alone returns how long it takes to copy everything if nobody writes.
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
		text += fmt.Sprintf(", %.0f%% of the writes are refused", 100*e.Refused)
	}
	return text
}

const (
	longestEstimate = 30 * 24 * time.Hour

	paceEvery = 5 * time.Second // how often the rates are measured

	mostRefused  = 0.75 // of the writes, so that large ones have a second of each period
	leastRefused = 0.05

	// lateAfter is the part of the time that is left in which everything must be copied if the
	// service becomes read-only. The rest is for the comparison.
	lateAfter = 0.8
)

// seconds returns a duration, which is zero if it is not positive or too long.
func seconds(n float64) time.Duration {
	if math.IsNaN(n) || n <= 0 || n > longestEstimate.Seconds() {
		return 0
	}
	return time.Duration(n * float64(time.Second))
}

// isLate reports whether the rest has to be copied while the service is read-only.
func (e Estimate) isLate() bool {
	return e.Within != 0 && e.alone() >= time.Duration(lateAfter*float64(e.Within))
}

// refuse returns the part of the writes to refuse from now on, so that everything is copied in
// time. With fewer writes, fewer keys change.
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
	wanted := e.Copied - float64(e.Left)/(lateAfter*e.Within.Seconds()) // keys that may change in a second
	part := 1 - (1-e.Refused)*max(wanted, 0)/max(e.Arriving, 1)
	return min(max(part, e.Refused+leastRefused), mostRefused)
}

// pace measures how fast passes copy changes, and slows writers if the end is not in sight.
type pace struct {
	c      *Copy
	at     time.Time
	left   int64 // keys at that time
	copied int   // keys since then
	said   time.Time
}

func (c *Copy) newPace(ctx context.Context) (*pace, error) {
	left, err := c.changesLeft(ctx)
	return &pace{c: c, at: time.Now(), left: left, said: time.Now()}, err
}

// passed counts the keys of a pass. It reports whether the rest has to be copied while the service
// is read-only.
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

// report shows an estimate, and reports it once a minute.
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

// within returns how much is left of FinishWithin, at least a nanosecond; 0 if there is no limit.
func (c *Copy) within() time.Duration {
	if c.FinishWithin == 0 {
		return 0
	}
	return max(c.FinishWithin-time.Since(c.begun), 1)
}

// isOver reports whether nothing is left of FinishWithin.
func (c *Copy) isOver() bool { return c.FinishWithin != 0 && time.Since(c.begun) >= c.FinishWithin }

// refusal is the part of the writes that are refused.
type refusal struct {
	mu     sync.Mutex
	bySize float64 // of the log
	byTime float64 // that is left
	set    float64 // in the source
}

func (r *refusal) of() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.set
}

// slow changes the part of the writes that are refused, and prolongs that.
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
	if errors.Is(err, errors.ErrUnsupported) { // such an engine becomes read-only in time
		return nil
	}
	if err == nil {
		r.set = part
	}
	return err
}

// errFull means that the log has too many entries.
var errFull = errors.New("too many rows change")

// limitLog slows writers when the log has half of its limit, and returns errFull when it has all.
func (c *Copy) limitLog(ctx context.Context, n int64) error {
	if n >= c.MaxChanges {
		return fmt.Errorf("%s: %w: %d wait to be copied, of at most %d: run the command again when fewer rows change, or with a larger --max-changes; the service goes on, and no changes are logged any more",
			c.Service, errFull, n, c.MaxChanges)
	}
	part := mostRefused * max(2*float64(n)/float64(c.MaxChanges)-1, 0)
	return c.slow(ctx, func(r *refusal) { r.bySize = part })
}
