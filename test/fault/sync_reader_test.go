package fault

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	syncload "holdfast/internal/workload/sync"
	"holdfast/test/binary"
)

// newUser returns a user with a token of the servers with a secret.
func newUser(t *testing.T, secret string, uid int64) *syncload.User {
	t.Helper()
	u, err := syncload.NewUser(secret, uid)
	must(t, err)
	return u
}

// sendSync sends a signed request; path is relative to the user's storage.
func sendSync(h *harness, s *binary.Server, u *syncload.User, method, path, body string) (binary.Answer, error) {
	return u.Credentials(s.URL).SendBy(h.t.Context(), h.client, method, path, body)
}

// askSync sends a signed request of a round.
func askSync(h *harness, l *load, s *binary.Server, u *syncload.User, method, path, body string) (a binary.Answer, answered bool) {
	return h.judge(l, method, path, func() (binary.Answer, error) { return sendSync(h, s, u, method, path, body) })
}

// readSync lists the shared collections of a user until the fault is over.
func readSync(h *harness, l *load, u *syncload.User, choose *rand.Rand) {
	for n := 0; !closed(l.over); n++ {
		collection := syncload.Shared()[choose.IntN(len(syncload.Shared()))]
		known := u.Wrote(collection)
		a, answered := askSync(h, l, h.serverOf(n), u, http.MethodGet, "/storage/"+collection+"?full=1", "")
		if answered {
			if err := syncload.Listed(a, known); err != nil {
				h.t.Errorf("%s of %s: %v", collection, u.Path, err)
				l.end()
				return
			}
			h.tally.reads.Add(1)
		}
		pause(l.over, 10*time.Millisecond)
	}
}

// lookSync reads a record of a writer that has lost a write: it is in the state before or after that
// write.
func lookSync(h *harness, l *load, w *syncload.Writer) {
	keys := w.State.Keys()
	if len(keys) == 0 {
		return
	}
	k := keys[w.Random.IntN(len(keys))]
	a, answered := askSync(h, l, h.serverOf(w.N), w.User, http.MethodGet, "/storage/"+k.Collection+"/"+k.ID, "")
	if !answered {
		return
	}
	h.tally.reads.Add(1)
	if err := w.Saw(k, a); err != nil {
		h.t.Errorf("%s, after no answer to %s: %s/%s: %v", w.Name, w.Lost, k.Collection, k.ID, err)
		l.end()
	}
}

// runWriter writes until the fault is over. If the answer to a write is lost, it reads what is there.
func runWriter(h *harness, l *load, w *syncload.Writer) {
	w.Trail = []syncload.Version{{State: w.State}}
	for !closed(l.over) {
		if w.Lost != nil {
			lookSync(h, l, w)
			pause(l.over, 20*time.Millisecond) // clients that are refused wait before they retry
			continue
		}
		step, sent := w.Next()
		step.Known, step.Sent = w.User.Known(), h.clock.Add(1)
		a, answered := askSync(h, l, h.serverOf(w.N), w.User, step.Method, step.Path, step.Body)
		if !answered {
			step.Refused = a.Status == http.StatusServiceUnavailable
			if l.resumes && step.Refused {
				continue
			}
			w.Lost = step
			if l.deadly {
				return // the server may be dead
			}
			continue
		}
		if err := w.Took(step, a, sent, h.leaps, h.clock.Add(1)); err != nil {
			h.t.Error(err)
			l.end()
			return
		}
		l.acknowledge()
	}
}
