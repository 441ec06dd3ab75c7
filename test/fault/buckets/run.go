package buckets

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"holdfast/internal/workload/buckets"
	"holdfast/test/fault/harness"
)

// run writes until the fault ends. After a lost response it reads the object.
func (b *Workload) run(h *harness.Harness, l *harness.Load, w *buckets.Writer) {
	ask := b.asker(h, l, w.N)
	h.Drive(l, func() (harness.Result, error) {
		if w.Lost != nil {
			harness.Pause(l.Over, 20*time.Millisecond)
			a, answered := ask(http.MethodGet, w.Lost.Path, "")
			if !answered {
				return harness.Nothing, nil
			}
			_, err := w.Found(buckets.MD5Of(a), h.Clock.Add(1))
			return harness.Nothing, err
		}
		d := w.Next()
		d.Sent = h.Clock.Add(1)
		a, answered, err := d.Do(ask)
		switch {
		case err != nil:
			return harness.Nothing, fmt.Errorf("%s: %w", d, err)
		case !answered:
			d.Refused = a.Status == http.StatusServiceUnavailable
			w.Lost = d
			return harness.Lost, nil
		}
		w.Done(d, h.Clock.Add(1))
		if w.Random.IntN(3) > 0 {
			return harness.Acknowledged, nil
		}
		if a, answered := ask(http.MethodGet, d.Path, ""); answered {
			h.Tally.Reads.Add(1)
			if sum := buckets.MD5Of(a); sum != d.After.MD5 {
				err = fmt.Errorf("%s was acknowledged, but then read as %q", d, sum)
			}
		}
		return harness.Acknowledged, err
	})
}

func (b *Workload) get(h *harness.Harness, path string) string {
	h.T.Helper()
	a, err := b.send(h, h.Server, http.MethodGet, path, "")
	if err != nil {
		h.T.Errorf("GET %s: %v", path, err)
	}
	return buckets.MD5Of(a)
}

// settle finds out whether a write without a response took effect.
func (b *Workload) settle(h *harness.Harness, w *buckets.Writer) {
	h.T.Helper()
	d := w.Lost
	if d == nil {
		return
	}
	done, err := w.Found(b.get(h, d.Path), h.Clock.Add(1))
	if err != nil {
		h.T.Error(err)
	} else if d.Before.MD5 != d.After.MD5 {
		h.Decided(d, d.Refused, done)
	}
}

// wasAt checks that a copy contains the object as it was at some moment between begun and ended.
func (b *Workload) wasAt(h *harness.Harness, w *buckets.Writer, path string, begun, ended int64) {
	h.T.Helper()
	if got, possible := b.get(h, path), w.Possible(path, begun, ended); !slices.Contains(possible, got) {
		h.T.Errorf("%s: MD5 %q in the copy, expected one of %q", path, got, possible)
	}
}
