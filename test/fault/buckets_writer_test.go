package fault

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

// run writes until the fault is over. If an answer is lost, it reads what is there.
func (b *bucketsWorkload) run(h *harness, l *load, w *buckets.Writer) {
	ask := func(method, target, body string, headers ...string) (binary.Answer, bool) {
		return h.judge(l, method, target, func() (binary.Answer, error) {
			return b.send(h, h.serverOf(w.N), method, target, body, headers...)
		})
	}
	fail := func(err error) {
		h.t.Error(err)
		l.end()
	}
	for !closed(l.over) {
		if w.Lost != nil {
			pause(l.over, 20*time.Millisecond)
			if a, answered := ask(http.MethodGet, w.Lost.Path, ""); answered {
				if _, err := w.Found(buckets.MD5Of(a), h.clock.Add(1)); err != nil {
					fail(err)
					return
				}
			}
			continue
		}
		d := w.Next()
		d.Sent = h.clock.Add(1)
		a, answered, err := d.Do(ask)
		switch {
		case err != nil:
			fail(fmt.Errorf("%s: %w", d, err))
			return
		case !answered:
			d.Refused = a.Status == http.StatusServiceUnavailable
			w.Lost = d
			if l.deadly {
				return // the server may be dead
			}
			continue
		}
		w.Done(d, h.clock.Add(1))
		l.acknowledge()
		if w.Random.IntN(3) > 0 {
			continue
		}
		if a, answered := ask(http.MethodGet, d.Path, ""); answered {
			h.tally.reads.Add(1)
			if sum := buckets.MD5Of(a); sum != d.After.MD5 {
				fail(fmt.Errorf("%s was acknowledged, and then read as %q", d, sum))
				return
			}
		}
	}
}

// get returns the MD5 of an object outside of a round.
func (b *bucketsWorkload) get(h *harness, path string) string {
	h.t.Helper()
	a, err := b.send(h, h.server, http.MethodGet, path, "")
	if err != nil {
		h.t.Errorf("GET %s: %v", path, err)
	}
	return buckets.MD5Of(a)
}

// settle finds out whether a write without an answer has happened.
func (b *bucketsWorkload) settle(h *harness, w *buckets.Writer) {
	h.t.Helper()
	d := w.Lost
	if d == nil {
		return
	}
	done, err := w.Found(b.get(h, d.Path), h.clock.Add(1))
	if err != nil {
		h.t.Error(err)
	} else if d.Before.MD5 != d.After.MD5 {
		h.decided(d, d.Refused, done)
	}
}

// wasAt expects a version that was current at one moment of a span of the clock.
func (b *bucketsWorkload) wasAt(h *harness, w *buckets.Writer, path string, begun, ended int64) {
	h.t.Helper()
	if got, possible := b.get(h, path), w.Possible(path, begun, ended); !slices.Contains(possible, got) {
		h.t.Errorf("%s has in the copy the MD5 %q, expected one of %q", path, got, possible)
	}
}
