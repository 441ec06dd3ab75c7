package lifecycle

import (
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

const (
	maxJump  = time.Hour      // larger jumps are not explained by a slow query
	distrust = 24 * time.Hour // how long rules wait after a jump
)

// guard detects jumps of the database clock. After a jump, young objects would expire.
type guard struct {
	moment buckets.Moment
	at     time.Time // monotonic
	until  time.Time // end of the distrust; zero if the clock is trusted
}

var errJumped = errcode.New(errcode.Unavailable,
	"the database clock jumped ahead by more than an hour: lifecycle rules wait for a day, or until the server is restarted; set the clock if it is wrong")

// check returns errJumped for a day after a jump, unless the clock was set back.
func (g *guard) check(now buckets.Moment, at time.Time) error {
	if !g.at.IsZero() {
		jump := now.Time().Sub(g.moment.Time()) - at.Sub(g.at)
		switch {
		case jump > maxJump:
			g.until = at.Add(distrust)
		case jump < -maxJump, !at.Before(g.until):
			g.until = time.Time{}
		}
	}
	g.moment, g.at = now, at
	if !g.until.IsZero() {
		return errJumped
	}
	return nil
}
