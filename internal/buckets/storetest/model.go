package storetest

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/buckets"
	"holdfast/internal/suite"
)

func modelChecks() []check { return []check{{"RandomSteps", randomSteps}} }

// machine takes random steps on a store and a model, and compares all visible state after each step.
type machine struct {
	*user
	objects  map[string]buckets.Object
	lengths  map[string]int64 // includes parts
	bodies   map[string][]buckets.ObjectID
	uploads  map[buckets.UploadID]string
	parts    map[buckets.UploadID]map[int]buckets.Part
	garbage  map[buckets.ObjectID]bool // has its own row
	unburied map[buckets.ObjectID]bool // parts of uploads in garbage
	quota    buckets.Quota
}

func randomSteps(t *testing.T, u *user) {
	var last *machine
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		u := *u
		u.t = rt
		m := &machine{
			user: u.other(), objects: map[string]buckets.Object{}, lengths: map[string]int64{}, bodies: map[string][]buckets.ObjectID{}, uploads: map[buckets.UploadID]string{},
			parts: map[buckets.UploadID]map[int]buckets.Part{}, garbage: map[buckets.ObjectID]bool{}, unburied: map[buckets.ObjectID]bool{},
			quota: buckets.Quota{Objects: rapid.Int64Range(0, 4).Draw(rt, "objects"), Bytes: rapid.SampledFrom([]int64{0, 30, 100}).Draw(rt, "bytes")},
		}
		if last != nil {
			last.t = rt
			last.empty() // the model reads the whole store after each step
		}
		last = m
		m.collect(1000)
		m.setQuota(m.ref(), m.quota)
		return map[string]func(*rapid.T){
			"put": m.stepPut, "put more": m.stepPut, "delete": m.stepDelete, "upload": m.stepUpload, "part": m.stepPart, "more parts": m.stepPart,
			"complete": m.stepComplete, "abort": m.stepAbort, "collect": m.stepCollect, "list": m.stepList, "": m.compare,
		}
	})
}

// empty ignores errors, because the store may differ from the model after a failed test.
func (m *machine) empty() {
	for name := range m.objects {
		_, _ = m.tryDelete(name, buckets.Condition{})
	}
	for id, name := range m.uploads {
		_ = m.h.Uploads.Abort(m.t.Context(), m.key(name, id), m.now)
	}
}

func (m *machine) usageNow() (u buckets.Usage) {
	u.Objects = int64(len(m.objects))
	for _, n := range m.lengths {
		u.Bytes += n
	}
	for _, parts := range m.parts {
		for _, p := range parts {
			u.Bytes += p.Length
		}
	}
	return u
}

func drawName(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "a/", "a/b", "a0", "%", "é"}).Draw(rt, "name")
}

func (m *machine) drawCondition(rt *rapid.T, name string) buckets.Condition {
	switch rapid.IntRange(0, 7).Draw(rt, "condition") {
	case 0:
		return buckets.Condition{NoneMatch: anyTag}
	case 1:
		return buckets.Condition{Match: anyTag}
	case 2:
		o := m.objects[name]
		return buckets.Condition{Match: tags(o.EntityTag())}
	case 3:
		return buckets.Condition{UnmodifiedSince: m.now - second}
	}
	return buckets.Condition{}
}

func (m *machine) wanted(name string, c buckets.Condition, delta buckets.Usage) error {
	old, found := m.objects[name]
	current := &old
	if !found {
		current = nil
	}
	if err := c.CheckWrite(current); err != nil {
		return err
	}
	if !m.quota.Allows(m.usageNow(), delta) {
		return &buckets.QuotaError{}
	}
	return nil
}

func agree(rt *rapid.T, what string, got, want error) bool {
	if _, quota := want.(*buckets.QuotaError); quota && got != nil {
		wantQuota(rt, what, got, false)
	} else {
		wantError(rt, what, got, want)
	}
	return got == nil && want == nil
}

func (m *machine) drop(name string) {
	o, found := m.objects[name]
	if !found {
		return
	}
	for _, id := range m.bodies[name] {
		if o.Upload == "" {
			m.garbage[id] = true
		} else {
			m.unburied[id] = true
		}
	}
	delete(m.objects, name)
	delete(m.lengths, name)
	delete(m.bodies, name)
}

func (m *machine) stepPut(rt *rapid.T) {
	m.t, m.now = rt, m.now+second/2
	name := drawName(rt)
	c := m.drawCondition(rt, name)
	o := buckets.Object{Name: name, Body: stored(rapid.Int64Range(0, 20).Draw(rt, "length"))}
	_, found := m.objects[name]
	delta := buckets.Usage{Objects: 1, Bytes: o.Length - m.lengths[name]}
	if found {
		delta.Objects = 0
	}
	want := m.wanted(name, c, delta)
	w, err := m.tryPut(o, c)
	if agree(rt, "Put", err, want) {
		equal(rt, "replaced", w.Replaced, found)
		m.drop(name)
		m.objects[name], m.lengths[name], m.bodies[name] = w.Object, o.Length, ids(o)
	}
}

func (m *machine) stepDelete(rt *rapid.T) {
	m.t = rt
	name := drawName(rt)
	c := m.drawCondition(rt, name)
	want := m.wanted(name, c, buckets.Usage{})
	if _, found := m.objects[name]; !found && want == nil {
		want = buckets.ErrNoObject
	}
	if _, err := m.tryDelete(name, c); agree(rt, "Delete", err, want) {
		m.drop(name)
	}
}

func (m *machine) stepUpload(rt *rapid.T) {
	m.t = rt
	name := drawName(rt)
	id := m.createUpload(name, m.now)
	m.uploads[id], m.parts[id] = name, map[int]buckets.Part{}
}

func (m *machine) drawUpload(rt *rapid.T) buckets.UploadID {
	m.t = rt
	if len(m.uploads) == 0 {
		rt.Skip("no upload")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.uploads))).Draw(rt, "upload")
}

func (m *machine) stepPart(rt *rapid.T) {
	id := m.drawUpload(rt)
	p := part(rapid.IntRange(1, 3).Draw(rt, "number"), rapid.Int64Range(0, 20).Draw(rt, "length"), m.now)
	old, found := m.parts[id][p.Number]
	var want error
	if !m.quota.Allows(m.usageNow(), buckets.Usage{Bytes: p.Length - old.Length}) {
		want = &buckets.QuotaError{}
	}
	if agree(rt, "PutPart", m.h.Uploads.PutPart(rt.Context(), m.key(m.uploads[id], id), p), want) {
		if found {
			m.garbage[old.ID] = true
		}
		m.parts[id][p.Number] = p
	}
}

func (m *machine) stepComplete(rt *rapid.T) {
	id := m.drawUpload(rt)
	name := m.uploads[id]
	c := m.drawCondition(rt, name)
	var refs []buckets.PartRef
	var used, unused []buckets.ObjectID
	var length, rest int64
	for _, n := range slices.Sorted(maps.Keys(m.parts[id])) {
		p := m.parts[id][n]
		if rapid.IntRange(0, 3).Draw(rt, "leave out") == 0 {
			unused, rest = append(unused, p.ID), rest+p.Length
			continue
		}
		refs = append(refs, buckets.PartRef{Number: n, ETag: hexTag(p)})
		used, length = append(used, p.ID), length+p.Length
	}
	delta := buckets.Usage{Objects: 1, Bytes: -rest - m.lengths[name]}
	if _, found := m.objects[name]; found {
		delta.Objects = 0
	}
	want := m.wanted(name, c, delta)
	if len(refs) == 0 {
		want = buckets.ErrNoParts
	}
	w, err := m.tryComplete(name, id, refs, c)
	if !agree(rt, "Complete", err, want) {
		return
	}
	m.drop(name)
	m.objects[name], m.lengths[name], m.bodies[name] = w.Object, length, used
	for _, body := range unused {
		m.garbage[body] = true
	}
	delete(m.uploads, id)
	delete(m.parts, id)
}

func (m *machine) stepAbort(rt *rapid.T) {
	id := m.drawUpload(rt)
	must(rt, "Abort", m.h.Uploads.Abort(rt.Context(), m.key(m.uploads[id], id), m.now))
	for _, p := range m.parts[id] {
		m.unburied[p.ID] = true
	}
	delete(m.uploads, id)
	delete(m.parts, id)
}

func (m *machine) collect(limit int) {
	for {
		claim, all := m.claim(limit)
		equal(m.t, "removed", m.remove(claim, all), len(all))
		if len(all) == 0 {
			return
		}
	}
}

func (m *machine) stepCollect(rt *rapid.T) {
	m.t = rt
	m.collect(rapid.SampledFrom([]int{1, 2, 100}).Draw(rt, "limit"))
	clear(m.garbage)
	clear(m.unburied)
}

func (m *machine) stepList(rt *rapid.T) {
	m.t = rt
	q := DrawQuery(rt)
	want, more := NaiveList(slices.Collect(maps.Keys(m.objects)), q)
	p := m.list(q)
	equal(rt, "entries", entryNames(p), want)
	equal(rt, "more", p.More, more)
}

func (m *machine) compare(rt *rapid.T) {
	m.t = rt
	equal(rt, "names", m.listed(buckets.Query{Limit: 100}), slices.Sorted(maps.Keys(m.objects)))
	var live, garbage []buckets.ObjectID
	for name, o := range m.objects {
		wantObject(rt, name, m.get(name), o)
		live = append(live, m.bodies[name]...)
	}
	for id, parts := range m.parts {
		page, _, err := m.h.Uploads.Parts(rt.Context(), m.key(m.uploads[id], id), 0, 9)
		must(rt, "Parts", err)
		equal(rt, "parts", len(page), len(parts))
		for _, p := range parts {
			live = append(live, p.ID)
		}
	}
	garbage = slices.AppendSeq(garbage, maps.Keys(m.unburied)) // found through their upload
	garbage = slices.AppendSeq(garbage, maps.Keys(m.garbage))
	m.wantBodies(live, garbage)
	u := m.usageNow()
	m.wantUsage(u.Objects, u.Bytes)
}
