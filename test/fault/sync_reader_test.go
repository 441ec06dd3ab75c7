package fault

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/test/binary"
)

// read lists the shared collections of a user until the fault is over.
func (u *user) read(h *harness, l *load, choose *rand.Rand) {
	for n := 0; !closed(l.over); n++ {
		collection := shared()[choose.IntN(len(shared()))]
		known := u.wrote(collection)
		a, answered := h.ask(l, h.serverOf(n), u, http.MethodGet, "/storage/"+collection+"?full=1", "")
		if answered {
			if err := listed(a, known); err != nil {
				h.t.Errorf("%s of %s: %v", collection, u.path, err)
				l.end()
				return
			}
			h.tally.reads.Add(1)
		}
		pause(l.over, 10*time.Millisecond)
	}
}

// listed checks a listing: it is complete, and includes every write that was acknowledged before
// the request.
func listed(a binary.Answer, known moment) error {
	if a.Status != http.StatusOK {
		return fmt.Errorf("%d %s", a.Status, a.Body)
	}
	stamp, err := parseMoment(a.Header.Get("X-Last-Modified"))
	if err != nil {
		return err
	}
	if stamp < known {
		return fmt.Errorf("it has the timestamp %v, but a write of %v was acknowledged before", stamp, known)
	}
	var records []wire
	if err := json.Unmarshal([]byte(a.Body), &records); err != nil {
		return err
	}
	for _, r := range records {
		name, _, _ := strings.Cut(r.ID, "-")
		modified, err := parseMoment(r.Modified.String())
		if err != nil || modified > stamp || !strings.HasPrefix(r.Payload, name+"/") {
			return fmt.Errorf("at %v it has %.80v", stamp, r)
		}
	}
	return nil
}

// look reads a record of a writer that has lost a write: it is in the state before or after that
// write.
func (w *writer) look(h *harness, l *load) {
	keys := w.state.keys()
	if len(keys) == 0 {
		return
	}
	k := keys[w.choose.IntN(len(keys))]
	a, answered := h.ask(l, h.serverOf(w.n), w.user, http.MethodGet, "/storage/"+k.collection+"/"+k.id, "")
	if !answered {
		return
	}
	h.tally.reads.Add(1)
	if err := w.saw(k, a); err != nil {
		h.t.Errorf("%s, after no answer to %s: %s/%s: %v", w.name, w.lost, k.collection, k.id, err)
		l.end()
	}
}

func (w *writer) saw(k key, a binary.Answer) error {
	if a.Status == http.StatusNotFound && slices.Contains(w.lost.deletes, k) {
		return nil
	}
	var r wire
	if err := json.Unmarshal([]byte(a.Body), &r); a.Status != http.StatusOK || err != nil {
		return fmt.Errorf("%d %s", a.Status, a.Body)
	}
	modified, err := parseMoment(r.Modified.String())
	if err != nil {
		return err
	}
	before, after := w.state[k], w.lost.applied(w.state, modified)[k]
	if got := (record{r.Payload, r.Sortindex, modified}); got != before && got != after {
		return fmt.Errorf("%s, want %s or %s", got, before, after)
	}
	return nil
}
