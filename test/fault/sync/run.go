package sync

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	syncload "holdfast/internal/workload/sync"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

func sendSync(h *harness.Harness, s *binary.Server, u *syncload.User, method, path, body string) (binary.Answer, error) {
	return u.Credentials(s.URL).SendBy(h.T.Context(), h.Client, method, path, body)
}

func askSync(h *harness.Harness, l *harness.Load, s *binary.Server, u *syncload.User, method, path, body string) (a binary.Answer, answered bool) {
	return h.Judge(l, method, path, func() (binary.Answer, error) { return sendSync(h, s, u, method, path, body) })
}

func readSync(h *harness.Harness, l *harness.Load, u *syncload.User, choose *rand.Rand) {
	for n := 0; !harness.Closed(l.Over); n++ {
		collection := syncload.Shared()[choose.IntN(len(syncload.Shared()))]
		known := u.Wrote(collection)
		a, answered := askSync(h, l, h.ServerOf(n), u, http.MethodGet, "/storage/"+collection+"?full=1", "")
		if answered {
			if err := syncload.Listed(a, known); err != nil {
				h.T.Errorf("%s of %s: %v", collection, u.Path, err)
				l.End()
				return
			}
			h.Tally.Reads.Add(1)
		}
		harness.Pause(l.Over, 10*time.Millisecond)
	}
}

// lookSync reads a record after a lost response. The record must have the state before or after the write.
func lookSync(h *harness.Harness, l *harness.Load, w *syncload.Writer) error {
	keys := w.State.Keys()
	if len(keys) == 0 {
		return nil
	}
	k := keys[w.Random.IntN(len(keys))]
	a, answered := askSync(h, l, h.ServerOf(w.N), w.User, http.MethodGet, "/storage/"+k.Collection+"/"+k.ID, "")
	if !answered {
		return nil
	}
	h.Tally.Reads.Add(1)
	if err := w.Saw(k, a); err != nil {
		return fmt.Errorf("%s, no response to %s: %s/%s: %w", w.Name, w.Lost, k.Collection, k.ID, err)
	}
	return nil
}

// runWriter writes until the fault ends. After a lost response it reads the records.
func runWriter(h *harness.Harness, l *harness.Load, w *syncload.Writer) {
	w.Trail = []syncload.Version{{State: w.State}}
	h.Drive(l, func() (harness.Result, error) {
		if w.Lost != nil {
			err := lookSync(h, l, w)
			harness.Pause(l.Over, 20*time.Millisecond)
			return harness.Nothing, err
		}
		step, sent := w.Next()
		step.Known, step.Sent = w.User.Known(), h.Clock.Add(1)
		a, answered := askSync(h, l, h.ServerOf(w.N), w.User, step.Method, step.Path, step.Body)
		if answered {
			return harness.Acknowledged, w.Took(step, a, sent, h.Leaps, h.Clock.Add(1))
		}
		if step.Refused = a.Status == http.StatusServiceUnavailable; l.Resumes && step.Refused {
			return harness.Nothing, nil
		}
		w.Lost = step
		return harness.Lost, nil
	})
}

func Download(h *harness.Instance, u *syncload.User, collection string) (int64, error) {
	req, err := h.Credentials(u).Request(h.T.Context(), http.MethodGet, "/storage/"+collection+"?full=1", "")
	if err != nil {
		return 0, err
	}
	resp, err := h.Client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s", resp.Status)
	}
	return io.Copy(io.Discard, resp.Body)
}

// FillCollection writes at least size bytes in full requests.
func FillCollection(h *harness.Instance, u *syncload.User, collection string, size int) {
	h.T.Helper()
	const perRequest, records = 2 << 20, 20
	payload := strings.Repeat("x", perRequest/records)
	for n := range (size + perRequest - 1) / perRequest {
		body := syncload.Records(0, records, func(i int) syncload.Record { return syncload.Record{ID: fmt.Sprintf("%d-%d", n, i), Payload: payload} })
		harness.Must(h.T, h.Send(u, http.MethodPost, "/storage/"+collection, body))
	}
}
