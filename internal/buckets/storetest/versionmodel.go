package storetest

import (
	"fmt"
	"holdfast/internal/buckets"
	"holdfast/internal/suite"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type versionMachine struct {
	*user
	state   buckets.Versioning
	names   map[string][]buckets.Version // newest first, as expected
	garbage map[buckets.ObjectID]bool
	parts   map[buckets.ObjectID]buckets.ObjectID // body by object, for single-part uploads
	buried  map[buckets.ObjectID]bool             // the bodies in parts that are garbage
	lock    buckets.BucketLock
	began   buckets.Moment
}

func randomVersions(t *testing.T, u *user) {
	var last *versionMachine
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		u := *u
		u.t = rt
		if last != nil {
			last.t = rt
			last.empty()
		}
		m := &versionMachine{
			user: u.other(), names: map[string][]buckets.Version{}, garbage: map[buckets.ObjectID]bool{},
			parts: map[buckets.ObjectID]buckets.ObjectID{}, buried: map[buckets.ObjectID]bool{},
		}
		last = m
		m.now += hour
		m.began = m.clock()
		if rapid.Bool().Draw(rt, "begins with object lock") {
			m.state, m.lock = buckets.VersioningEnabled, buckets.BucketLock{Enabled: true}
			m.locking()
		}
		return map[string]func(*rapid.T){
			"put": m.stepPut, "put more": m.stepPut, "upload": m.stepUpload, "delete": m.stepDelete, "delete all": m.stepDeleteAll, "delete version": m.stepDeleteVersion,
			"more versions": m.stepDeleteVersion, "update": m.stepUpdate, "versioning": m.stepVersioning, "object lock": m.stepBucketLock,
			"lock": m.stepLock, "more locks": m.stepLock, "list": m.stepList, "": m.compare,
		}
	})
}

func (m *versionMachine) empty() {
	for _, all := range m.names {
		for i := range all {
			_ = m.tryErase(all[i].Object, true) // locked versions stay
		}
	}
	for {
		claim, all := m.claim(1000)
		m.remove(claim, all)
		if len(all) == 0 {
			return
		}
	}
}

func (m *versionMachine) tickAny(rt *rapid.T) {
	m.t = rt
	m.now += rapid.SampledFrom([]buckets.Moment{0, 1, second, second, -second, -hour}).Draw(rt, "clock")
}

func (m *versionMachine) current(name string) *buckets.Object {
	if all := m.names[name]; len(all) > 0 && !all[0].Marker {
		return &all[0].Object
	}
	return nil
}

func (m *versionMachine) leave(name string, i int) {
	if v := m.names[name][i]; !v.Marker {
		if body, ok := m.parts[v.ID]; ok {
			m.buried[body] = true
		} else {
			m.garbage[v.ID] = true
		}
	}
	if m.names[name] = slices.Delete(m.names[name], i, i+1); len(m.names[name]) == 0 {
		delete(m.names, name)
	} else if i == 0 {
		m.names[name][0].Superseded = 0
	}
}

func (m *versionMachine) add(name string, v buckets.Version) {
	if m.state != buckets.VersioningEnabled {
		for i := range m.names[name] {
			if m.names[name][i].VersionID() == buckets.NullVersion {
				first := i == 0
				m.leave(name, i)
				if first && len(m.names[name]) > 0 {
					m.names[name][0].Superseded = -1
				}
				break
			}
		}
	}
	if all := m.names[name]; len(all) > 0 && all[0].Superseded == 0 {
		all[0].Superseded = m.now
	}
	m.names[name] = append([]buckets.Version{v}, m.names[name]...)
}

func (m *versionMachine) stepVersioning(rt *rapid.T) {
	m.t = rt
	v := rapid.SampledFrom([]buckets.Versioning{buckets.VersioningEnabled, buckets.VersioningSuspended}).Draw(rt, "versioning")
	if m.lock.Enabled && v == buckets.VersioningSuspended {
		wantError(rt, "SetVersioning", m.h.Versions.SetVersioning(rt.Context(), m.owner, m.ref(), v), buckets.ErrLockVersioning)
		return
	}
	m.state = v
	m.setVersioning(m.state)
}

func (m *versionMachine) drawCondition(rt *rapid.T, name string) buckets.Condition {
	switch rapid.IntRange(0, 6).Draw(rt, "condition") {
	case 0:
		return buckets.Condition{NoneMatch: anyTag}
	case 1:
		return buckets.Condition{Match: anyTag}
	case 2:
		if o := m.current(name); o != nil {
			return buckets.Condition{Match: tags(o.EntityTag())}
		}
	}
	return buckets.Condition{}
}

func (m *versionMachine) wantVersion(rt *rapid.T, got, of buckets.VersionID) {
	switch m.state {
	case buckets.VersioningOff:
		equal(rt, "version", got, "")
	case buckets.VersioningSuspended:
		equal(rt, "version", got, buckets.NullVersion)
	default:
		equal(rt, "version", got, of)
		if got == "" || got == buckets.NullVersion {
			rt.Errorf("version %q", got)
		}
	}
}

func (m *versionMachine) stepPut(rt *rapid.T) {
	m.tickAny(rt)
	name := drawName(rt)
	c := m.drawCondition(rt, name)
	o := buckets.Object{Name: name, Body: stored(rapid.Int64Range(0, 20).Draw(rt, "length"))}
	if rapid.Bool().Draw(rt, "inline") {
		o.Body = inline(rapid.SampledFrom([]string{"", "x", "longer"}).Draw(rt, "body"))
	}
	o.Lock = m.drawLock(rt)
	want := c.CheckWrite(m.current(name))
	if want == nil && !m.lock.Enabled && !o.Lock.IsZero() {
		want = buckets.ErrNoLock
	}
	w, err := m.tryPut(o, c)
	if agree(rt, "Put", err, want) {
		m.wantVersion(rt, w.Version, w.Object.Version)
		w.Object.Lock = o.Lock
		m.add(name, buckets.Version{Object: m.wantWritten(rt, w.Object)})
	}
}

func (m *versionMachine) stepUpload(rt *rapid.T) {
	m.tickAny(rt)
	name := drawName(rt)
	id := m.createUpload(name, m.now)
	p := part(1, 7, m.now)
	must(rt, "PutPart", m.h.Uploads.PutPart(rt.Context(), m.key(name, id), p))
	refs := []buckets.PartRef{{Number: 1, ETag: hexTag(p)}}
	w, err := m.tryComplete(name, id, refs, buckets.Condition{})
	must(rt, "Complete", err)
	m.wantVersion(rt, w.Version, w.Object.Version)
	again, err := m.tryComplete(name, id, refs, buckets.Condition{})
	must(rt, "Complete again", err)
	equal(rt, "the same version", again.Version, w.Version)
	m.parts[w.Object.ID] = p.ID
	w.Object.Lock = buckets.Lock{}
	m.add(name, buckets.Version{Object: m.wantWritten(rt, w.Object)})
}

func (m *versionMachine) stepDelete(rt *rapid.T) {
	m.tickAny(rt)
	name := drawName(rt)
	c := m.drawCondition(rt, name)
	want := c.CheckWrite(m.current(name))
	if want == nil && m.current(name) == nil && m.state == buckets.VersioningOff {
		want = buckets.ErrNoObject
	}
	d, err := m.h.Store.Delete(rt.Context(), m.owner, m.ref(), buckets.Delete{Name: name, Condition: c, Now: m.now})
	if agree(rt, "Delete", err, want) {
		m.deleted(rt, name, d)
	}
}

func (m *versionMachine) deleted(rt *rapid.T, name string, d buckets.Deleted) {
	if m.state == buckets.VersioningOff {
		equal(rt, "no version", d.Version, "")
		m.leave(name, 0)
		return
	}
	equal(rt, "marker", d.Marker, true)
	v := buckets.Version{Marker: true}
	if v.Name = name; d.Version != buckets.NullVersion {
		v.Version = d.Version
	}
	m.wantVersion(rt, d.Version, d.Version)
	m.add(name, v)
}

func (m *versionMachine) stepDeleteAll(rt *rapid.T) {
	m.tickAny(rt)
	a, b := drawName(rt), drawName(rt)
	all := []buckets.Deletion{{Name: a}}
	if a != b { // otherwise the order is unknown
		d := buckets.Deletion{Name: b, Bypass: rapid.Bool().Draw(rt, "bypass")}
		if versions := m.names[b]; len(versions) > 0 && rapid.Bool().Draw(rt, "version") {
			d.Version = versions[rapid.IntRange(0, len(versions)-1).Draw(rt, "index")].VersionID()
		}
		all = append(all, d)
	}
	done, err := m.h.Store.DeleteAll(rt.Context(), m.owner, m.ref(), buckets.Deletions{All: all, Now: m.now})
	must(rt, "DeleteAll", err)
	for i, d := range all {
		switch {
		case d.Version != "" && isLocked(m.names[d.Name][m.index(d.Name, d.Version)].Lock, d.Bypass, m.began):
			wantLocked(rt, "DeleteAll of a version", done[i].Err, m.names[d.Name][m.index(d.Name, d.Version)].Lock)
		case d.Version != "":
			must(rt, "DeleteAll of a version", done[i].Err)
			m.leave(d.Name, m.index(d.Name, d.Version))
		case m.state == buckets.VersioningOff && m.current(d.Name) == nil:
			wantError(rt, "DeleteAll", done[i].Err, buckets.ErrNoObject)
		default:
			must(rt, "DeleteAll", done[i].Err)
			m.deleted(rt, d.Name, done[i])
		}
	}
}

func (m *versionMachine) index(name string, id buckets.VersionID) int {
	return slices.IndexFunc(m.names[name], func(v buckets.Version) bool { return v.VersionID() == id })
}

func (m *versionMachine) draw(rt *rapid.T) (name string, id buckets.VersionID) {
	m.tickAny(rt)
	if len(m.names) == 0 || rapid.IntRange(0, 9).Draw(rt, "none") == 0 {
		return drawName(rt), rapid.SampledFrom([]buckets.VersionID{buckets.NullVersion, buckets.NewVersionID(m.now, "", "11111111-1111-4111-8111-111111111111")}).Draw(rt, "version")
	}
	name = rapid.SampledFrom(slices.Sorted(maps.Keys(m.names))).Draw(rt, "name")
	return name, m.names[name][rapid.IntRange(0, len(m.names[name])-1).Draw(rt, "index")].VersionID()
}

func (m *versionMachine) stepDeleteVersion(rt *rapid.T) {
	name, id := m.draw(rt)
	i := m.index(name, id)
	d, locked, err := m.tryEraseAny(rt, name, id)
	if locked {
		return
	}
	if i < 0 {
		wantError(rt, "Delete", err, buckets.ErrNoVersion)
		return
	}
	must(rt, "Delete", err)
	v := m.names[name][i]
	equal(rt, "deleted", fmt.Sprint(d.Version, d.Marker), fmt.Sprint(id, v.Marker))
	if !v.Marker {
		equal(rt, "deleted body", d.Object.ID, v.ID)
	}
	m.leave(name, i)
}

func (m *versionMachine) stepUpdate(rt *rapid.T) {
	name, id := m.draw(rt)
	i := m.index(name, id)
	tag := map[string]string{"t": rapid.StringMatching(`[a-z]{1,3}`).Draw(rt, "tag")}
	o, err := m.h.Store.Update(rt.Context(), m.owner, m.ref(), buckets.Update{Name: name, Version: id, Tags: &tag, Now: m.now})
	switch {
	case i < 0:
		wantError(rt, "Update", err, buckets.ErrNoVersion)
	case m.names[name][i].Marker:
		wantError(rt, "Update", err, buckets.ErrMarker)
	default:
		must(rt, "Update", err)
		equal(rt, "updated", o.VersionID(), id)
		m.names[name][i].Tags = tag
	}
}

func (m *versionMachine) all() (all []buckets.Version) {
	for _, name := range slices.Sorted(maps.Keys(m.names)) {
		for i, v := range m.names[name] {
			v.Current = i == 0
			all = append(all, v)
		}
	}
	return all
}

func label(v *buckets.Version) string {
	return fmt.Sprint(v.Name, " ", v.VersionID(), " marker ", v.Marker, " current ", v.Current)
}

func (m *versionMachine) stepList(rt *rapid.T) {
	m.t = rt
	q := buckets.VersionQuery{
		Prefix: rapid.SampledFrom([]string{"", "a", "a/", "é"}).Draw(rt, "prefix"), Delimiter: rapid.SampledFrom([]string{"", "/"}).Draw(rt, "delimiter"),
		Limit: rapid.IntRange(1, 4).Draw(rt, "limit"),
	}
	var want, got []string
	all := m.all()
	for i := range all {
		v := &all[i]
		if !strings.HasPrefix(v.Name, q.Prefix) {
			continue
		}
		objects := buckets.Query{Prefix: q.Prefix, Delimiter: q.Delimiter}
		if group, ok := objects.GroupOf(v.Name); !ok {
			want = append(want, label(v))
		} else if !slices.Contains(want, group) {
			want = append(want, group)
		}
	}
	for range 1000 {
		p := m.versions(q)
		for i := range p.Versions {
			got = append(got, label(&p.Versions[i]))
		}
		got = append(got, p.Groups...)
		if n := len(p.Versions) + len(p.Groups); n > q.Limit || p.More && n != q.Limit {
			rt.Fatalf("a page of %d, the limit is %d", n, q.Limit)
		}
		if !p.More {
			break
		}
		q.After, q.AfterVersion = p.After, p.AfterVersion
	}
	slices.Sort(want)
	slices.Sort(got)
	equal(rt, "versions", got, want)
}

func (m *versionMachine) compare(rt *rapid.T) {
	m.t = rt
	var names, order []string
	var bodies, garbage []buckets.ObjectID
	var u buckets.Usage
	all := m.all()
	for i := range all {
		v := &all[i]
		order = append(order, label(v))
		u.Objects++
		got, err := m.version(v.Name, v.VersionID())
		must(rt, "Version", err)
		equal(rt, "version", label(&got), label(v))
		if v.Superseded >= 0 {
			equal(rt, "superseded", got.Superseded, v.Superseded)
		}
		if v.Current {
			current, err := m.version(v.Name, "")
			must(rt, "Version", err)
			equal(rt, "current version", label(&current), label(v))
		}
		if v.Marker {
			continue
		}
		wantObject(rt, v.Name, got.Object, v.Object)
		u.Bytes += v.Length
		if body, ok := m.parts[v.ID]; ok {
			bodies = append(bodies, body)
		} else if v.Sharks != nil {
			bodies = append(bodies, v.ID)
		}
		if v.Current {
			names = append(names, v.Name)
			wantObject(rt, v.Name, m.get(v.Name), v.Object)
		}
	}
	equal(rt, "names", m.listed(buckets.Query{Limit: 100}), names)
	var got []string
	page := m.versions(buckets.VersionQuery{Limit: buckets.MaxPage})
	for i := range page.Versions {
		got = append(got, label(&page.Versions[i]))
	}
	equal(rt, "order of versions", got, order)
	refs := m.references()
	for id := range m.garbage {
		if _, ok := refs[id]; ok { // inline bodies are not referenced
			garbage = append(garbage, id)
		}
	}
	m.wantBodies(bodies, slices.AppendSeq(garbage, maps.Keys(m.buried)))
	m.wantUsage(u.Objects, u.Bytes)
	switch {
	case len(all) > 0:
		wantError(rt, "DeleteBucket", m.h.Store.DeleteBucket(rt.Context(), m.owner, m.ref(), m.now), buckets.ErrBucketNotEmpty)
	case m.state != buckets.VersioningOff:
		m.deleteBucket(m.ref())
		m.bucket, m.state, m.lock = m.createBucket(m.bucket.Name), buckets.VersioningOff, buckets.BucketLock{}
	}
}
