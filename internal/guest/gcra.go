package guest

import "time"

// Bucket is a rate limit's state for a client.
type Bucket struct {
	Key string // of the client and class
	Limit
}

// Limit allows Events per Per, and Burst more at once.
type Limit struct {
	Events int // more than 0
	Per    time.Duration
	Burst  int // tokens in a full bucket
}

// Taken is a bucket's state after taking a token.
type Taken struct {
	Allowed   bool
	Remaining int           // tokens left
	Reset     time.Duration // until the bucket is full
	Retry     time.Duration // until a token is available; 0 if allowed
}

// Micros returns, in microseconds, the time to gain a token and the time to fill an empty bucket.
func (l Limit) Micros() (interval, burst int64) {
	interval = max(1, l.Per.Microseconds()/int64(max(1, l.Events)))
	return interval, interval * int64(l.Burst)
}

// Life is how long to keep the bucket: until it is full, and at least a minute.
func (l Limit) Life() time.Duration {
	_, burst := l.Micros()
	return max(time.Minute, time.Duration(burst)*time.Microsecond)
}

// Take applies the generic cell rate algorithm. full is when the bucket is full, in microseconds like now; 0 for a
// new bucket. A Redis script implements the same steps.
func (l Limit) Take(full, now int64) (int64, Taken) {
	interval, burst := l.Micros()
	full = min(max(full, now), now+burst) // limits the wait after the clock was set back
	if next := full + interval; next-now <= burst {
		return next, l.Taken(true, next-now)
	}
	return full, l.Taken(false, full-now)
}

// Taken describes the bucket after Take. wait is the time, in microseconds, until the bucket is full.
func (l Limit) Taken(allowed bool, wait int64) Taken {
	interval, burst := l.Micros()
	t := Taken{Allowed: allowed, Remaining: int((burst - wait) / interval), Reset: time.Duration(wait) * time.Microsecond}
	if !allowed {
		t.Retry = time.Duration(wait+interval-burst) * time.Microsecond
	}
	return t
}
