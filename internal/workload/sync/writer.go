package sync

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/workload"
)

// Shared returns the collections that all of a user's writers share.
func Shared() []string { return []string{"bookmarks", "history", "addons-of-a-fault"} }

// Writer writes its own records sequentially, so it knows the expected state. Writers share the collections and the
// row that assigns timestamps; each has a private collection, which it may delete.
type Writer struct {
	N      int
	Name   string
	User   *User
	Random *rand.Rand
	serial int

	State State
	batch *Batch
	Lost  *Step // without an answer
	Trail []Version
}

// Version is a writer's state after a write in this round; the first is from before the round.
type Version struct {
	State       State
	Stamp       Moment
	sent, acked int64 // harness's clock
}

type Batch struct {
	id, collection string
	staged         State
}

// NewWriter returns a user's writer n without records.
func NewWriter(u *User, n int) *Writer {
	w := &Writer{N: n, Name: fmt.Sprintf("w%d", n), User: u, State: State{}}
	u.Writers = append(u.Writers, w)
	return w
}

// Took checks and records an acknowledgement, at the latest now. A clock leap may end an open batch.
func (w *Writer) Took(s *Step, a workload.Answer, sent int, leaps bool, now int64) error {
	if leaps && w.batch != nil && (s.staged || s.commits) && a.Status == http.StatusBadRequest {
		w.batch = nil // never committed, so none of it may exist
		return nil
	}
	ack, err := s.read(a, sent)
	if err != nil {
		return err
	}
	if s.staged {
		if w.batch == nil {
			w.batch = &Batch{id: ack.Batch, collection: s.collection, staged: State{}}
		}
		maps.Copy(w.batch.staged, s.puts)
		return nil
	}
	if s.commits {
		w.batch = nil
	}
	w.State = s.applied(w.State, ack.stamp)
	w.Trail = append(w.Trail, Version{w.State, ack.stamp, s.Sent, now})
	return w.User.stamped(s, ack.stamp)
}

// Next chooses a request, and returns the number of records it sends.
func (w *Writer) Next() (s *Step, sent int) {
	switch n := w.Random.IntN(12); {
	case n < 3:
		return w.post()
	case n < 6:
		return w.stage()
	case n < 7 && len(w.in(w.own())) > 0:
		return w.request(http.MethodDelete, at(w.own(), ""), w.own(), nil, w.in(w.own())), 0
	case n < 9 && len(w.State) > 0:
		return w.delete(), 0
	}
	return w.put()
}

func (w *Writer) own() string { return "own-" + w.Name }

func (w *Writer) collection() string { return w.among(append(Shared(), w.own())) }

func (w *Writer) among(names []string) string { return names[w.Random.IntN(len(names))] }

func (w *Writer) in(collection string) []Key {
	return slices.DeleteFunc(w.State.Keys(), func(k Key) bool { return collection != "" && k.Collection != collection })
}

// idsPerCollection is small, so that most writes replace something.
const idsPerCollection = 40

func (w *Writer) records(collection string, n int) State {
	s := State{}
	for range 1 + w.Random.IntN(n) {
		w.serial++
		k := Key{collection, fmt.Sprintf("%s-%d", w.Name, w.Random.IntN(idsPerCollection))}
		s[k] = Content{
			payload:   fmt.Sprintf("%s/%d/%s", w.Name, w.serial, strings.Repeat("x", w.Random.IntN(2000))),
			sortindex: int64(w.Random.IntN(1000)),
		}
	}
	return s
}

func (w *Writer) request(method, path, collection string, puts State, deletes []Key) *Step {
	return &Step{
		writer: w.Name, Method: method, Path: path, collection: collection,
		status: http.StatusOK, puts: puts, deletes: deletes,
	}
}

func at(collection, id string) string {
	if id != "" {
		id = "/" + id
	}
	return "/storage/" + collection + id
}

func (w *Writer) put() (*Step, int) {
	puts := w.records(w.collection(), 1)
	k := puts.Keys()[0]
	s := w.request(http.MethodPut, at(k.Collection, k.ID), k.Collection, puts, nil)
	s.Body = JSON(puts[k].wire(k))
	return s, 1
}

func (w *Writer) post() (*Step, int) {
	c := w.collection()
	s := w.request(http.MethodPost, at(c, ""), c, w.records(c, 30), nil)
	s.Body = list(s.puts)
	return s, len(s.puts)
}

// stage opens or fills a batch in the shared collections: deleting the private collection would delete its batches.
func (w *Writer) stage() (*Step, int) {
	if w.batch == nil {
		c := w.among(Shared())
		s := w.request(http.MethodPost, Append(c, ""), c, w.records(c, 30), nil)
		s.Body, s.staged, s.status = list(s.puts), true, http.StatusAccepted
		return s, len(s.puts)
	}
	c := w.batch.collection
	puts := w.records(c, 30)
	body, sent := list(puts), len(puts)
	if w.Random.IntN(2) == 0 {
		s := w.request(http.MethodPost, Append(c, w.batch.id), c, puts, nil)
		s.Body, s.staged, s.status = body, true, http.StatusAccepted
		return s, sent
	}
	all := maps.Clone(w.batch.staged)
	maps.Copy(all, puts)
	s := w.request(http.MethodPost, Commit(c, w.batch.id), c, all, nil)
	s.Body, s.commits = body, true
	return s, sent
}

func (w *Writer) delete() *Step {
	keys := w.in("")
	k := keys[w.Random.IntN(len(keys))]
	if w.Random.IntN(2) == 0 {
		return w.request(http.MethodDelete, at(k.Collection, k.ID), k.Collection, nil, []Key{k})
	}
	keys = w.in(k.Collection)
	w.Random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:1+w.Random.IntN(min(len(keys), 10))]
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.ID
	}
	return w.request(http.MethodDelete, at(k.Collection, "")+"?ids="+strings.Join(ids, ","), k.Collection, nil, keys)
}

func (r Content) wire(k Key) Record {
	return Record{ID: k.ID, Payload: r.payload, Sortindex: &r.sortindex}
}

// ReadContent decodes a record into its expected state.
func ReadContent(r Record) (Content, error) {
	modified, err := ParseMoment(r.Modified.String())
	if err == nil && r.Sortindex == nil {
		err = fmt.Errorf("%s has no sortindex", r.ID)
	}
	if err != nil {
		return Content{}, err
	}
	return Content{r.Payload, *r.Sortindex, modified}, nil
}

func list(s State) string {
	keys := s.Keys()
	return Records(0, len(keys), func(n int) Record { return s[keys[n]].wire(keys[n]) })
}

// Listed checks that a listing is complete and includes every write acknowledged before the request.
func Listed(a workload.Answer, known Moment) error {
	if a.Status != http.StatusOK {
		return fmt.Errorf("%d %s", a.Status, a.Body)
	}
	stamp, err := ParseMoment(a.Header.Get("X-Last-Modified"))
	if err != nil {
		return err
	}
	if stamp < known {
		return fmt.Errorf("it has the timestamp %v, but a write of %v was acknowledged before", stamp, known)
	}
	var records []Record
	if err := json.Unmarshal([]byte(a.Body), &records); err != nil {
		return err
	}
	for _, r := range records {
		name, _, _ := strings.Cut(r.ID, "-")
		modified, err := ParseMoment(r.Modified.String())
		if err != nil || modified > stamp || !strings.HasPrefix(r.Payload, name+"/") {
			return fmt.Errorf("at %v it has %.80v", stamp, r)
		}
	}
	return nil
}

// Saw checks a record read while a write's outcome is unknown.
func (w *Writer) Saw(k Key, a workload.Answer) error {
	if a.Status == http.StatusNotFound && slices.Contains(w.Lost.deletes, k) {
		return nil
	}
	var r Record
	if err := json.Unmarshal([]byte(a.Body), &r); a.Status != http.StatusOK || err != nil {
		return fmt.Errorf("%d %s", a.Status, a.Body)
	}
	got, err := ReadContent(r)
	if err != nil {
		return err
	}
	before, after := w.State[k], w.Lost.applied(w.State, got.modified)[k]
	if got != before && got != after {
		return fmt.Errorf("%s, want %s or %s", got, before, after)
	}
	return nil
}

func (r Content) String() string {
	return fmt.Sprintf("%.20q (%d bytes, sortindex %d) of %v", r.payload, len(r.payload), r.sortindex, r.modified)
}

// Was reports whether the writer had this state when the user's newest timestamp was newest, possibly within the
// span.
func (w *Writer) Was(there State, newest Moment, begun, ended int64) bool {
	after, _ := slices.BinarySearchFunc(w.Trail, newest+1, func(v Version, m Moment) int { return cmp.Compare(v.Stamp, m) })
	at, final := w.Trail[after-1], after == len(w.Trail)
	if at.sent > ended || !final && w.Trail[after].acked < begun {
		return false
	}
	return maps.Equal(there, at.State) ||
		final && w.Lost != nil && w.Lost.Sent < ended && maps.Equal(there, w.Lost.applied(at.State, w.Lost.stampIn(there)))
}

// Found compares the writer's records with the expected records. An unanswered write happened entirely or not at all,
// and affects no other records. decided is false if unknown.
func (w *Writer) Found(there State) (decided, done bool, err error) {
	lost, before := w.Lost, w.State
	w.Lost, w.State = nil, there
	if lost == nil || lost.staged {
		if lost != nil {
			w.batch = nil // its contents are unknown; it is never committed
		}
		if !maps.Equal(there, before) {
			err = fmt.Errorf("%s, all acknowledged:%s", w.Name, workload.Difference(there, before))
		}
		return false, false, err
	}
	stamp := lost.stampIn(there)
	after := lost.applied(before, stamp)
	switch {
	case maps.Equal(there, before):
		return true, false, nil // its batch is still open and can be committed
	case maps.Equal(there, after):
		if lost.commits {
			w.batch = nil
		}
		if stamp > 0 { // a deletion's timestamp is not visible
			err = w.User.stamped(lost, stamp)
		}
		return true, true, err
	}
	return false, false, fmt.Errorf("%s, no answer to %s; without it:%s\nwith it:%s", w.Name, lost, workload.Difference(there, before), workload.Difference(there, after))
}
