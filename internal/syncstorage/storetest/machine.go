package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/suite"
	ss "holdfast/internal/syncstorage"
)

func modelChecks() []check {
	return []check{
		{"RandomSteps", randomSteps},
	}
}

// machine runs random operations on a store and the model, while the clock moves forwards and backwards.
type machine struct {
	*user
	model *model

	// If quota is set, records do not expire: between expiry and sweep the contract allows a range of results, which
	// other tests check.
	quota bool

	limits ss.BatchLimits
	open   []ss.BatchID
}

func randomSteps(t *testing.T, u *user) {
	u.at(lastSweep).drain()
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		m := newMachine(rt, u.other())
		// The next run must not sweep this run's records.
		rt.Cleanup(func() {
			if err := m.store.DeleteAll(context.Background(), m.owner, ss.Precondition{}); err != nil {
				rt.Errorf("DeleteAll: %v", err)
			}
		})
		return m.steps()
	})
}

// RunMoving runs random operations on a store while its data moves to another database. start returns the owner's
// store and move, which moves part of the data, or the rest if all is set, and finally returns the other store.
func RunMoving(t *testing.T, start func(rt *rapid.T, o ss.Owner) (h Harness, move func(rt *rapid.T, all bool) *Harness)) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine(rt, newUser(rt, Harness{}))
		h, move := start(rt, m.owner)
		m.h, m.store = h, h.Store
		step := func(rt *rapid.T, all bool) {
			if to := move(rt, all); to != nil {
				m.h, m.store = *to, to.Store
			}
		}
		steps := m.steps()
		for _, again := range []string{"move", "move again", "and again"} {
			steps[again] = func(rt *rapid.T) { step(rt, false) }
		}
		rt.Repeat(steps)
		step(rt, true)
		m.compare(rt)
		m.stepPut(rt)
		m.stepCommit(rt)
		m.compare(rt)
	})
}

func newMachine(rt *rapid.T, u *user) *machine {
	m := &machine{user: u, model: newModel()}
	m.t, m.now = rt, early
	m.quota = rapid.Bool().Draw(rt, "under a quota")
	m.limits = ss.BatchLimits{Records: rapid.Int64Range(1, 5).Draw(rt, "records"), Bytes: rapid.Int64Range(5, 50).Draw(rt, "bytes")}
	return m
}

func (m *machine) steps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"Get":              m.stepGet,
		"List":             m.stepList,
		"Put":              m.stepPut,
		"Put again":        m.stepPut,
		"Post":             m.stepPost,
		"open a batch":     m.stepOpen,
		"Append":           m.stepAppend,
		"Commit":           m.stepCommit,
		"DeleteBSO":        m.stepDeleteBSO,
		"DeleteBSOs":       m.stepDeleteBSOs,
		"DeleteCollection": m.stepDeleteCollection,
		"DeleteAll":        m.stepDeleteAll,
		"Sweep":            m.stepSweep,
		"time":             m.stepTime,
		"":                 m.compare,
	}
}

func drawCollection(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"bookmarks", "tabs"}).Draw(rt, "collection")
}

func drawIDs(rt *rapid.T, least int) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "B", "{c}", ".."}), least, 4, rapid.ID[string]).Draw(rt, "ids")
}

func drawID(rt *rapid.T) string { return drawIDs(rt, 1)[0] }

func (m *machine) drawUpdate(rt *rapid.T, id string) ss.Update {
	u := ss.Update{ID: id}
	if size := rapid.IntRange(-2, 12).Draw(rt, "payload"); size >= 0 {
		u.Payload = text(xs(int64(size)))
	}
	u.SortIndex = optional(rt, "sortindex", rapid.Int64Range(-1, 2))
	if !m.quota {
		u.TTL = optional(rt, "ttl", rapid.SampledFrom([]int64{0, 1, 10, 3600, ss.MaxTTL}))
	}
	return u
}

func (m *machine) drawUpdates(rt *rapid.T) []ss.Update {
	var us []ss.Update
	for _, id := range drawIDs(rt, 0) {
		us = append(us, m.drawUpdate(rt, id))
	}
	return us
}

func (m *machine) drawIf(rt *rapid.T, collection string) (p ss.Precondition) {
	kind := rapid.IntRange(0, 5).Draw(rt, "if")
	if kind < 4 {
		return p
	}
	c := m.model.collection(collection)
	near := []ss.Timestamp{0, m.now, m.model.last, c.modified, ss.MaxTimestamp}
	for _, id := range slices.Sorted(maps.Keys(c.records)) {
		near = append(near, c.records[id].Modified)
	}
	at := rapid.SampledFrom(near).Draw(rt, "at") + rapid.SampledFrom([]ss.Timestamp{0, -tick, tick}).Draw(rt, "aside")
	if at = min(max(at, 0), ss.MaxTimestamp); kind == 4 {
		return ifUnmodifiedSince(at)
	}
	return ifModifiedSince(at)
}

func (m *machine) drawWrite(rt *rapid.T) ss.Write {
	collection := drawCollection(rt)
	w := m.writeIf(collection, m.drawIf(rt, collection))
	if m.quota {
		w.Quota = ss.Quota{
			Collection: rapid.Int64Range(0, 40).Draw(rt, "quota of a collection"),
			User:       rapid.Int64Range(0, 60).Draw(rt, "quota of the user"),
			Enforce:    rapid.Bool().Draw(rt, "enforce"),
		}
	}
	return w
}

func (m *machine) answered(got ss.Written, err error) func(ss.Written, error) {
	return func(want ss.Written, wantErr error) {
		m.t.Helper()
		wantError(m.t, "answer", err, wantErr)
		if err == nil && wantErr == nil {
			equal(m.t, "stamp", got.Modified, want.Modified)
			equal(m.t, "stamp before", got.Previous, want.Previous)
		}
	}
}

func (m *machine) stored(w ss.Write, slack int64, got ss.Written, err error) func(ss.Written, error) {
	return func(want ss.Written, wantErr error) {
		m.t.Helper()
		m.answered(got, err)(want, wantErr)
		between := func(got, want int64) bool { return want <= got && got <= want+slack }
		if err == nil && w.Quota.Limited() && !(between(got.Used.Collection, want.Used.Collection) && between(got.Used.User, want.Used.User)) {
			m.t.Errorf("Used is %v, want %v and up to %d more", got.Used, want.Used, slack)
		}
	}
}

func (m *machine) stepGet(rt *rapid.T) {
	collection, id := drawCollection(rt), drawID(rt)
	r := ss.Request{Collection: collection, If: m.drawIf(rt, collection), Now: m.now}
	got, err := m.store.Get(rt.Context(), m.owner, r, id)
	want, wantErr := m.model.Get(r, id)
	wantError(rt, "answer", err, wantErr)
	if err == nil && wantErr == nil {
		equal(rt, "record", recordOf(&got), recordOf(&want))
	}
}

func (m *machine) stepList(rt *rapid.T) {
	q := ss.Query{Collection: drawCollection(rt), Now: m.now, Full: true}
	q.If = m.drawIf(rt, q.Collection)
	q.Sort = rapid.SampledFrom([]ss.Sort{ss.Newest, ss.Oldest, ss.ByIndex}).Draw(rt, "sort")
	q.Limit = optional(rt, "limit", rapid.IntRange(0, 4))
	q.Newer = optional(rt, "newer", rapid.SampledFrom([]ss.Timestamp{0, early, m.now, m.model.last, m.model.last - tick}))
	want, wantErr := m.model.List(&q)
	l, err := m.store.List(rt.Context(), m.owner, &q)
	wantError(rt, "answer", err, wantErr)
	if err != nil {
		return
	}
	got, err := readPage(l)
	must(rt, "List", err)
	samePage(rt, &q, got, want)
}

func (m *machine) stepPut(rt *rapid.T) {
	w, u := m.drawWrite(rt), m.drawUpdate(rt, drawID(rt))
	got, err := m.store.Put(rt.Context(), m.owner, w, u)
	m.stored(w, 0, got, err)(m.model.Put(w, u))
}

func (m *machine) stepPost(rt *rapid.T) {
	w, us := m.drawWrite(rt), m.drawUpdates(rt)
	got, err := m.store.Post(rt.Context(), m.owner, w, us)
	m.stored(w, 0, got, err)(m.model.Post(w, us))
}

func (m *machine) stepOpen(rt *rapid.T) {
	if len(m.open) >= 8 {
		m.open = m.open[1:]
	}
	b := newBatch()
	m.appendTo(rt, b, true)
	m.open = append(m.open, b)
}

func (m *machine) stepAppend(rt *rapid.T) { m.appendTo(rt, m.drawBatch(rt), false) }

func (m *machine) drawBatch(rt *rapid.T) ss.BatchID {
	i := rapid.IntRange(-1, len(m.open)-1).Draw(rt, "batch")
	if i < 0 {
		return newBatch()
	}
	return m.open[i]
}

func (m *machine) appendTo(rt *rapid.T, b ss.BatchID, opens bool) {
	w, p := m.drawWrite(rt), ss.BatchPart{ID: b, Opens: opens, Updates: m.drawUpdates(rt), Limits: m.limits}
	got, err := m.store.Append(rt.Context(), m.owner, w, p)
	// A store may count a stored record and its staged replacement, if that does not change the decision.
	slack := m.model.collection(w.Collection).usage(m.now).Bytes
	m.stored(w, slack, got, err)(m.model.Append(w, p))
}

func (m *machine) stepCommit(rt *rapid.T) {
	w, p := m.drawWrite(rt), ss.BatchPart{Updates: m.drawUpdates(rt), Limits: m.limits}
	p.ID = m.drawBatch(rt)
	got, err := m.store.Commit(rt.Context(), m.owner, w, p)
	m.stored(w, 0, got, err)(m.model.Commit(w, p))
}

func (m *machine) stepDeleteBSO(rt *rapid.T) {
	w, id := m.drawWrite(rt), drawID(rt)
	got, err := m.store.DeleteBSO(rt.Context(), m.owner, w, id)
	m.answered(got, err)(m.model.DeleteBSO(w, id))
}

func (m *machine) stepDeleteBSOs(rt *rapid.T) {
	w, ids := m.drawWrite(rt), drawIDs(rt, 1)
	got, err := m.store.DeleteBSOs(rt.Context(), m.owner, w, ids)
	m.answered(got, err)(m.model.DeleteBSOs(w, ids))
}

func (m *machine) stepDeleteCollection(rt *rapid.T) {
	w := m.drawWrite(rt)
	got, err := m.store.DeleteCollection(rt.Context(), m.owner, w)
	m.answered(got, err)(m.model.DeleteCollection(w))
}

func (m *machine) stepDeleteAll(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "sure") > 0 {
		rt.Skip("skipped most of the time")
	}
	p := m.drawIf(rt, "bookmarks")
	err := m.store.DeleteAll(rt.Context(), m.owner, p)
	wantError(rt, "answer", err, m.model.DeleteAll(p))
}

func (m *machine) stepSweep(rt *rapid.T) {
	if why := m.h.Exempt["Sweep"]; why != "" {
		rt.Skip(why)
	}
	limit := rapid.SampledFrom([]int{1, 3, 1000}).Draw(rt, "limit")
	swept := m.sweep(limit)
	if swept == limit {
		// Which records a limited sweep removes is undefined: compare after removing everything due.
		swept += m.drain()
	}
	staged := 0
	for _, b := range m.model.batches {
		if b.expiry <= m.now {
			staged += len(b.records)
		}
	}
	records, batches := m.model.Sweep(m.now)
	if swept < records+batches || swept > records+batches+staged {
		rt.Errorf("swept %d, want %d records and %d batches", swept, records, batches)
	}
}

func (m *machine) stepTime(rt *rapid.T) {
	by := rapid.SampledFrom([]ss.Timestamp{
		1, 9, tick, 3 * tick, second, 10 * second, hour, 2 * hour, 3 * hour, -1, -tick, -second, -10 * second, -hour, -3 * hour,
	}).Draw(rt, "by")
	m.now = max(m.now+by, early-1000*hour)
}

func (m *machine) compare(rt *rapid.T) {
	m.t = rt
	want := state{modified: m.model.last, collections: map[string]collectionState{}}
	for _, c := range m.model.Usage(m.now).Collections {
		p, err := m.model.List(&ss.Query{Collection: c.Name, Sort: ss.Oldest, Full: true, Now: m.now})
		must(rt, "the model's List", err)
		want.collections[c.Name] = collectionState{m.model.collections[c.Name].modified, c.Records, c.Bytes, p.records}
	}
	m.wantState(fmt.Sprintf("the step, at %v,", m.now), want)
}
