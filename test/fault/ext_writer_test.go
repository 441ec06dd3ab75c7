package fault

import (
	"fmt"
	"net/http"
	"regexp"
	"time"

	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
)

// runExtWriter writes until the fault is over. If the answer to an operation is lost, it retries an
// idempotent one, and reads the records otherwise.
func runExtWriter(h *harness, l *load, w *ext.Writer) {
	for !closed(l.over) {
		d := w.Lost
		switch {
		case d == nil:
			d = w.Next()
		case d.Once() == "":
			lookExt(h, l, w)
			pause(l.over, 20*time.Millisecond) // clients that are refused wait before they retry
			continue
		default:
			pause(l.over, 20*time.Millisecond)
		}
		if w.Lost == nil {
			d.Known, d.Sent = w.Install.Knows(), h.clock.Add(1)
		}
		a, answered := askExt(h, l, h.serverOf(w.N), w.Install, d.Call)
		if !answered {
			d.Refused = (d.Refused || w.Lost == nil) && a.Status == http.StatusServiceUnavailable
			if l.resumes && d.Refused && d.Once() == "" {
				continue
			}
			w.Lost = d
			if l.deadly {
				return // the server may be dead
			}
			continue
		}
		w.Lost = nil
		if err := w.Took(d, a, h.clock.Add(1)); err != nil {
			h.t.Error(err)
			l.end()
			return
		}
		l.acknowledge()
		if d.Once() != "" && !h.leaps && w.Random.IntN(4) == 0 {
			if err := repeatExt(h, l, w, d, a); err != nil {
				h.t.Error(err)
				l.end()
				return
			}
		}
	}
}

// sum is the member that the answer to a repeated operation may lack.
var sum = regexp.MustCompile(`"sum":[^,}]*`)

// repeatExt sends an operation again, and another one with the same idempotency key.
func repeatExt(h *harness, l *load, w *ext.Writer, d *ext.Operation, first binary.Answer) error {
	again, answered := askExt(h, l, h.serverOf(w.N), w.Install, d.Call)
	switch {
	case !answered:
	case d.Rejected != nil:
		return d.Read(again)
	case again.Status != first.Status, again.Header.Get("Idempotency-Replayed") != "true",
		sum.ReplaceAllString(again.Body, "") != sum.ReplaceAllString(first.Body, ""):
		return fmt.Errorf("%s was answered with %d %s, and again with %d %s", d, first.Status, first.Body, again.Status, again.Body)
	default:
		other := d.Call
		other.Body += " "
		if a, answered := askExt(h, l, h.serverOf(w.N), w.Install, other); answered {
			return (&ext.Rejection{Status: http.StatusUnprocessableEntity, Code: "IDEMPOTENCY_KEY_REUSED"}).Check(a)
		}
	}
	return nil
}

// askExt is ask for calls of extension storage.
func askExt(h *harness, l *load, s *binary.Server, in *ext.Install, c ext.Call) (binary.Answer, bool) {
	return h.judge(l, c.Method, c.Path, func() (binary.Answer, error) { return in.Send(h.t.Context(), h.client, s.URL, c) })
}
