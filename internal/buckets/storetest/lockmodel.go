package storetest

import (
	"holdfast/internal/buckets"

	"pgregory.net/rapid"
)

// untils are at least a day before or after the database time, because the machine's clock may differ.
var untils = []buckets.Moment{-day, day, 2 * day}

func (m *versionMachine) drawRetention(rt *rapid.T) buckets.Retention {
	return buckets.Retention{
		Mode:  rapid.SampledFrom([]buckets.LockMode{buckets.Governance, buckets.Compliance}).Draw(rt, "mode"),
		Until: m.began + rapid.SampledFrom(untils).Draw(rt, "until"),
	}
}

func (m *versionMachine) drawLock(rt *rapid.T) (l buckets.Lock) {
	if !m.lock.Enabled && rapid.IntRange(0, 9).Draw(rt, "unlocked") > 0 {
		return l
	}
	if rapid.Bool().Draw(rt, "locked") {
		r := m.drawRetention(rt)
		l.Mode, l.Until = r.Mode, r.Until
	}
	l.Hold = rapid.SampledFrom([]buckets.HoldStatus{"", "", "", buckets.HoldOff, buckets.HoldOn}).Draw(rt, "hold")
	return l
}

func (m *versionMachine) stepBucketLock(rt *rapid.T) {
	m.t = rt
	l := rapid.SampledFrom([]buckets.BucketLock{{Enabled: true}, {Enabled: true, Mode: buckets.Governance, Days: 30}}).Draw(rt, "object lock")
	err := m.h.Versions.SetBucketLock(rt.Context(), m.owner, m.ref(), l)
	if m.state != buckets.VersioningEnabled {
		wantError(rt, "SetBucketLock", err, buckets.ErrLockVersioning)
		return
	}
	must(rt, "SetBucketLock", err)
	m.lock = l
}

func (m *versionMachine) wantWritten(rt *rapid.T, o buckets.Object) buckets.Object {
	v, err := m.version(o.Name, o.VersionID())
	must(rt, "Version", err)
	want := o.Lock
	if m.lock.Mode != "" && want.Mode == "" {
		want.Mode, want.Until = m.lock.Mode, v.Lock.Until
		if least := m.began + 30*day; want.Until < least || want.Until > least+hour {
			rt.Errorf("%s is locked until %v", o.Name, want.Until.Time())
		}
	}
	equal(rt, "lock of a new object", v.Lock, want)
	o.Lock = want
	return o
}

func (m *versionMachine) stepLock(rt *rapid.T) {
	name, id := m.draw(rt)
	i := m.index(name, id)
	c := buckets.LockChange{Bypass: rapid.Bool().Draw(rt, "bypass")}
	if rapid.IntRange(0, 2).Draw(rt, "a hold") == 0 {
		c.Hold = rapid.SampledFrom([]buckets.HoldStatus{buckets.HoldOn, buckets.HoldOff}).Draw(rt, "status")
	} else {
		r := buckets.Retention{}
		if rapid.IntRange(0, 4).Draw(rt, "remove") > 0 {
			r = m.drawRetention(rt)
		}
		c.Retention = &r
	}
	_, err := m.h.Store.Update(rt.Context(), m.owner, m.ref(), buckets.Update{Name: name, Version: id, Lock: &c, Now: m.now})
	switch {
	case i < 0:
		wantError(rt, "Update", err, buckets.ErrNoVersion)
	case m.names[name][i].Marker:
		wantError(rt, "Update", err, buckets.ErrMarker)
	case !m.lock.Enabled:
		wantError(rt, "Update", err, buckets.ErrNoLock)
	default:
		l, forbidden := changed(m.names[name][i].Lock, c, m.began)
		if forbidden {
			wantLocked(rt, "Update", err, buckets.Lock{Mode: l.Mode, Until: l.Until})
			return
		}
		must(rt, "Update", err)
		m.names[name][i].Lock = l
	}
}

func changed(l buckets.Lock, c buckets.LockChange, now buckets.Moment) (to buckets.Lock, forbidden bool) {
	to = l
	if c.Hold != "" {
		to.Hold = c.Hold
	}
	if c.Retention == nil {
		return to, false
	}
	to.Mode, to.Until = c.Retention.Mode, c.Retention.Until
	ended := l.Until < now
	switch {
	case ended, l.Mode == "":
		return to, false
	case l.Mode == buckets.Compliance && (to.Mode != buckets.Compliance || to.Until < l.Until):
		return l, true
	case l.Mode == buckets.Governance && !c.Bypass && (to.Mode != buckets.Governance || to.Until < l.Until):
		return l, true
	}
	return to, false
}

func isLocked(l buckets.Lock, bypass bool, now buckets.Moment) bool {
	if l.Hold == buckets.HoldOn {
		return true
	}
	return l.Until > now && (l.Mode == buckets.Compliance || !bypass)
}

func (m *versionMachine) tryEraseAny(rt *rapid.T, name string, id buckets.VersionID) (d buckets.Deleted, forbidden bool, err error) {
	del := buckets.Delete{Name: name, Version: id, Now: m.now, Bypass: rapid.Bool().Draw(rt, "bypass")}
	if i := m.index(name, id); i >= 0 && isLocked(m.names[name][i].Lock, del.Bypass, m.began) {
		del.Now += rapid.SampledFrom([]buckets.Moment{0, 100 * year, -30 * year}).Draw(rt, "jump")
		_, err = m.h.Store.Delete(rt.Context(), m.owner, m.ref(), del)
		wantLocked(rt, "Delete", err, m.names[name][i].Lock)
		return d, true, err
	}
	d, err = m.h.Store.Delete(rt.Context(), m.owner, m.ref(), del)
	return d, false, err
}
