package obs

import (
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// traffic counts clients' requests.
type traffic struct {
	errors  atomic.Int64
	buckets [15]atomic.Int64 // for requestBuckets, and one above
}

func (t *traffic) add(status int, d time.Duration) {
	if status >= http.StatusInternalServerError {
		t.errors.Add(1)
	}
	at, _ := slices.BinarySearch(requestBuckets, d.Seconds())
	t.buckets[at].Add(1)
}

// Traffic is the number of clients' requests since the start, or between two points.
type Traffic struct {
	Requests int64
	Errors   int64 // with a status of 500 or more
	buckets  [15]int64
}

// Traffic returns the count since the start.
func (m *Metrics) Traffic() (t Traffic) {
	t.Errors = m.traffic.errors.Load()
	for i := range t.buckets {
		t.buckets[i] = m.traffic.buckets[i].Load()
		t.Requests += t.buckets[i]
	}
	return t
}

// Since returns the requests after an earlier point.
func (t Traffic) Since(before Traffic) Traffic {
	t.Requests -= before.Requests
	t.Errors -= before.Errors
	for i := range t.buckets {
		t.buckets[i] -= before.buckets[i]
	}
	return t
}

// Quantile returns the duration in seconds that a fraction of the requests, e.g. .99, did not exceed. It is the upper
// bound of a bucket, at most 60.
func (t Traffic) Quantile(part float64) float64 {
	left := part * float64(t.Requests)
	for i, n := range t.buckets {
		if left -= float64(n); n > 0 && left <= 0 {
			return requestBuckets[min(i, len(requestBuckets)-1)]
		}
	}
	return 0
}
