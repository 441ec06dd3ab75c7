package guest

import "time"

// Bucket is a bucket of tokens with its limit.
type Bucket struct {
	Key string // such as search:gms_…
	Limit
}

// Limit is a rate: Events in each Per, and Burst more at once.
type Limit struct {
	Events int
	Per    time.Duration
	Burst  int
}

// Taken is a bucket after a token was taken from it.
type Taken struct {
	Allowed   bool
	Remaining int           // tokens
	Reset     time.Duration // until the bucket is full
	Retry     time.Duration // until it has a token; 0 if it was allowed
}

// Micros returns the time in which the bucket gains a token, and that in which an empty
// one gets full, in microseconds.
func (l Limit) Micros() (interval, most int64) {
	interval = max(1, l.Per.Microseconds()/int64(max(1, l.Events)))
	return interval, interval * int64(l.Burst)
}

// Life is how long the bucket must be kept: until it is full, and at least a minute.
func (l Limit) Life() time.Duration {
	_, most := l.Micros()
	return max(time.Minute, time.Duration(most)*time.Microsecond)
}

// Take takes a token from a bucket by the generic cell rate algorithm. full is when the
// bucket is full, in microseconds as now is; 0 for a new one. Redis executes the same
// steps in a script.
func (l Limit) Take(full, now int64) (int64, Taken) {
	interval, most := l.Micros()
	full = min(max(full, now), now+most) // a clock that was set back owes nobody more than a full bucket
	if next := full + interval; next-now <= most {
		return next, l.Taken(true, next-now)
	}
	return full, l.Taken(false, full-now)
}

// Taken describes a bucket that is full in so many microseconds.
func (l Limit) Taken(allowed bool, wait int64) Taken {
	interval, most := l.Micros()
	t := Taken{Allowed: allowed, Remaining: int((most - wait) / interval), Reset: time.Duration(wait) * time.Microsecond}
	if !allowed {
		t.Retry = time.Duration(wait+interval-most) * time.Microsecond
	}
	return t
}
