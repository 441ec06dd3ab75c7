package ext

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// runExtWriter writes until the fault ends. After a lost response it retries an idempotent operation, and otherwise
// reads the records.
func runExtWriter(h *harness.Harness, l *harness.Load, w *ext.Writer) {
	h.Drive(l, func() (harness.Result, error) {
		d := w.Lost
		switch {
		case d == nil:
			d = w.Next()
			d.Known, d.Sent = w.Install.Knows(), h.Clock.Add(1)
		case d.Once() == "":
			err := lookExt(h, l, w)
			harness.Pause(l.Over, 20*time.Millisecond)
			return harness.Nothing, err
		default:
			harness.Pause(l.Over, 20*time.Millisecond)
		}
		a, answered := askExt(h, l, h.ServerOf(w.N), w.Install, d.Call)
		if !answered {
			d.Refused = (d.Refused || w.Lost == nil) && a.Status == http.StatusServiceUnavailable
			if l.Resumes && d.Refused && d.Once() == "" {
				return harness.Nothing, nil
			}
			w.Lost = d
			return harness.Lost, nil
		}
		w.Lost = nil
		err := w.Took(d, a, h.Clock.Add(1))
		if err == nil && d.Once() != "" && !h.Leaps && w.Random.IntN(4) == 0 {
			err = repeatExt(h, l, w, d, a)
		}
		return harness.Acknowledged, err
	})
}

// sum matches a member that may be missing when a response is repeated.
var sum = regexp.MustCompile(`"sum":[^,}]*`)

// number matches the beginning of a number in a body.
var number = regexp.MustCompile(`":[0-9]`)

// longest is the longest lifetime that a record may have. Writers choose no other.
const longest = `"ttlSeconds":2592000`

// another returns a valid request that differs from c in a lifetime, in the first number of the body, or else in the
// record.
func another(c ext.Call) ext.Call {
	if strings.Contains(c.Body, longest) {
		c.Body = strings.Replace(c.Body, longest, strings.TrimSuffix(longest, "0"), 1)
	} else if at := number.FindStringIndex(c.Body); at != nil {
		c.Body = c.Body[:at[1]-1] + "1" + c.Body[at[1]-1:]
	} else {
		c.Path += "x"
	}
	return c
}

// repeatExt repeats an operation in another spelling, which must get the first response again, and sends another operation
// with the same idempotency key.
func repeatExt(h *harness.Harness, l *harness.Load, w *ext.Writer, d *ext.Operation, first binary.Answer) error {
	respelled := d.Call
	if respelled.Body != "" {
		respelled.Body += " "
	}
	again, answered := askExt(h, l, h.ServerOf(w.N), w.Install, respelled)
	switch {
	case !answered:
	case d.Rejected != nil:
		return d.Read(again)
	case again.Status != first.Status, again.Header.Get("Idempotency-Replayed") != "true",
		sum.ReplaceAllString(again.Body, "") != sum.ReplaceAllString(first.Body, ""):
		return fmt.Errorf("%s: first response %d %s, second response %d %s", d, first.Status, first.Body, again.Status, again.Body)
	default:
		if a, answered := askExt(h, l, h.ServerOf(w.N), w.Install, another(d.Call)); answered {
			return (&ext.Rejection{Status: http.StatusUnprocessableEntity, Code: "IDEMPOTENCY_KEY_REUSED"}).Check(a)
		}
	}
	return nil
}

func askExt(h *harness.Harness, l *harness.Load, s *binary.Server, in *ext.Install, c ext.Call) (binary.Answer, bool) {
	return h.Judge(l, c.Method, c.Path, func() (binary.Answer, error) { return in.Send(h.T.Context(), h.Client, s.URL, c) })
}
