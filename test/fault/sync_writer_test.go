package fault

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdfast/test/binary"
)

// shared are the collections that all writers of a user write to.
func shared() []string { return []string{"bookmarks", "history", "addons-of-a-fault"} }

// writer writes records that nobody else writes, one request after the other, so it knows what
// must be there. Writers of a user share the collections and the row that assigns timestamps; each
// has one collection of its own, which it may delete.
type writer struct {
	n      int
	name   string
	user   *user
	choose *rand.Rand
	serial int // of payloads

	state state
	batch *batch
	lost  *step // without an answer
	trail []version
}

// version is the state of a writer after a write of this round; the first is its state before the
// round.
type version struct {
	state       state
	stamp       moment
	sent, acked int64 // by the harness's clock
}

// batch is an open batch.
type batch struct {
	id, collection string
	staged         state
}

func newWriter(u *user, n int) *writer {
	w := &writer{n: n, name: fmt.Sprintf("w%d", n), user: u, state: state{}}
	u.writers = append(u.writers, w)
	return w
}

// run writes until the fault is over. If the answer to a write is lost, it reads what is there.
func (w *writer) run(h *harness, l *load) {
	w.trail = []version{{state: w.state}}
	for !closed(l.over) {
		if w.lost != nil {
			w.look(h, l)
			pause(l.over, 20*time.Millisecond) // clients that are refused wait before they retry
			continue
		}
		step, sent := w.next()
		step.known, step.sent = w.user.known(), h.clock.Add(1)
		a, answered := h.ask(l, h.serverOf(w.n), w.user, step.method, step.path, step.body)
		if !answered {
			step.refused = a.Status == http.StatusServiceUnavailable
			if l.resumes && step.refused {
				continue
			}
			w.lost = step
			if l.deadly {
				return // the server may be dead
			}
			continue
		}
		if err := w.took(h, step, a, sent); err != nil {
			h.t.Error(err)
			l.end()
			return
		}
		l.acknowledge()
	}
}

// took records an acknowledgement.
func (w *writer) took(h *harness, s *step, a binary.Answer, sent int) error {
	if h.leaps && w.batch != nil && (s.staged || s.commits) && a.Status == http.StatusBadRequest {
		w.batch = nil // never committed, so nothing of it may be there
		return nil
	}
	ack, err := s.read(a, sent)
	if err != nil {
		return err
	}
	if s.staged {
		if w.batch == nil {
			w.batch = &batch{id: ack.Batch, collection: s.collection, staged: state{}}
		}
		maps.Copy(w.batch.staged, s.puts)
		return nil
	}
	if s.commits {
		w.batch = nil
	}
	w.state = s.applied(w.state, ack.stamp)
	w.trail = append(w.trail, version{w.state, ack.stamp, s.sent, h.clock.Add(1)})
	return w.user.stamped(s, ack.stamp)
}

// next chooses a request, and returns how many records it sends.
func (w *writer) next() (s *step, sent int) {
	switch n := w.choose.IntN(12); {
	case n < 3:
		return w.post()
	case n < 6:
		return w.stage()
	case n < 7 && len(w.in(w.own())) > 0:
		return w.request(http.MethodDelete, w.own(), "", nil, w.in(w.own())), 0
	case n < 9 && len(w.state) > 0:
		return w.delete(), 0
	}
	return w.put()
}

func (w *writer) own() string { return "own-" + w.name }

func (w *writer) collection() string { return w.among(append(shared(), w.own())) }

func (w *writer) among(names []string) string { return names[w.choose.IntN(len(names))] }

// in returns the keys of a collection where the writer has a record; "" means all collections.
func (w *writer) in(collection string) []key {
	return slices.DeleteFunc(w.state.keys(), func(k key) bool { return collection != "" && k.collection != collection })
}

// idsPerCollection is small, so that most writes replace something.
const idsPerCollection = 40

// records returns up to n new records for a collection.
func (w *writer) records(collection string, n int) state {
	s := state{}
	for range 1 + w.choose.IntN(n) {
		w.serial++
		k := key{collection, fmt.Sprintf("%s-%d", w.name, w.choose.IntN(idsPerCollection))}
		s[k] = record{
			payload:   fmt.Sprintf("%s/%d/%s", w.name, w.serial, strings.Repeat("x", w.choose.IntN(2000))),
			sortindex: int64(w.choose.IntN(1000)),
		}
	}
	return s
}

func (w *writer) request(method, collection, more string, puts state, deletes []key) *step {
	return &step{
		writer: w.name, method: method, path: "/storage/" + collection + more, collection: collection,
		status: http.StatusOK, puts: puts, deletes: deletes,
	}
}

func (w *writer) put() (*step, int) {
	puts := w.records(w.collection(), 1)
	k := puts.keys()[0]
	s := w.request(http.MethodPut, k.collection, "/"+k.id, puts, nil)
	s.body = puts[k].json(k)
	return s, 1
}

func (w *writer) post() (*step, int) {
	c := w.collection()
	s := w.request(http.MethodPost, c, "", w.records(c, 30), nil)
	s.body = list(s.puts)
	return s, len(s.puts)
}

// stage opens a batch, appends to the open one, or commits it. Deleting a collection deletes its
// batches, so batches are in another one.
func (w *writer) stage() (*step, int) {
	if w.batch == nil {
		c := w.among(shared())
		s := w.request(http.MethodPost, c, "?batch=true", w.records(c, 30), nil)
		s.body, s.staged, s.status = list(s.puts), true, http.StatusAccepted
		return s, len(s.puts)
	}
	c, query := w.batch.collection, "?batch="+url.QueryEscape(w.batch.id)
	puts := w.records(c, 30)
	body, sent := list(puts), len(puts)
	if w.choose.IntN(2) == 0 {
		s := w.request(http.MethodPost, c, query, puts, nil)
		s.body, s.staged, s.status = body, true, http.StatusAccepted
		return s, sent
	}
	all := maps.Clone(w.batch.staged)
	maps.Copy(all, puts)
	s := w.request(http.MethodPost, c, query+"&commit=true", all, nil)
	s.body, s.commits = body, true
	return s, sent
}

// delete deletes a record, or some of a collection.
func (w *writer) delete() *step {
	keys := w.in("")
	k := keys[w.choose.IntN(len(keys))]
	if w.choose.IntN(2) == 0 {
		return w.request(http.MethodDelete, k.collection, "/"+k.id, nil, []key{k})
	}
	keys = w.in(k.collection)
	w.choose.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:1+w.choose.IntN(min(len(keys), 10))]
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.id
	}
	return w.request(http.MethodDelete, k.collection, "?ids="+strings.Join(ids, ","), nil, keys)
}

// wire is a record as it is sent and listed.
type wire struct {
	ID        string      `json:"id"`
	Payload   string      `json:"payload"`
	Sortindex int64       `json:"sortindex"`
	Modified  json.Number `json:"modified,omitempty"`
}

func (r record) json(k key) string {
	b, err := json.Marshal(wire{ID: k.id, Payload: r.payload, Sortindex: r.sortindex})
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(b)
}

func list(s state) string {
	records := make([]string, 0, len(s))
	for _, k := range s.keys() {
		records = append(records, s[k].json(k))
	}
	return "[" + strings.Join(records, ",") + "]"
}
