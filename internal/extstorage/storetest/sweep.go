package storetest

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/testdb"
)

func sweepChecks() []check {
	return []check{
		{"Bounded", sweepBounded},
		{"Boundary", sweepBoundary},
		{"TellsTheFeed", sweepTells},
		{"Order", sweepOrder},
		{"OnlyWhatIsDue", sweepOnlyDue},
		{"Counters", sweepCounters},
		{"ClockTurnedBack", clockTurnedBack},
		{"Changes", sweepsChanges},
		{"ChangesOfOneMoment", sweepsChangesOfOneMoment},
		{"ChangesUnderATurnedClock", sweepsUnderATurnedClock},
		{"Answers", sweepsAnswers},
		{"Tokens", sweepsTokens},
		{"ByKind", sweepsByKind},
		{"WhileWritten", sweepWhileWritten},
		{"Fault", sweepFault},
	}
}

// These times separate this group's data from the data of other groups.
const (
	afterAll    = early + 1000*day
	afterSwept  = afterAll + 8*day
	changesKept = ext.Moment(ext.ChangesKept / 1e6)
	answersKept = ext.Moment(ext.AnswersKept / 1e6)
)

func (u *user) sweep(limit int) int {
	u.t.Helper()
	return u.sweepDue(u.now, limit)
}

func (u *user) sweepDue(due ext.Moment, limit int) (total int) {
	u.t.Helper()
	for kind := range ext.SweptKinds {
		if total < limit {
			total += u.sweepKind(kind, due, limit-total)
		}
	}
	return total
}

func (u *user) sweepKind(kind ext.Swept, due ext.Moment, limit int) int {
	u.t.Helper()
	n, err := u.h.Store.Sweep(u.t.Context(), kind, u.now, due, limit)
	must(u.t, "Sweep", err)
	if n < 0 || n > limit {
		u.t.Errorf("Sweep removed %d of at most %d", n, limit)
	}
	return n
}

func (u *user) drain() (total int) {
	u.t.Helper()
	for {
		n := u.sweep(200)
		if n == 0 {
			return total
		}
		total += n
	}
}

func (u *user) clean() {
	u.t.Helper()
	u.at(afterAll).drain()
	u.at(afterSwept).drain()
}

func sweepBounded(t *testing.T, u *user) {
	u.clean()
	v := u.other()
	u.apply(expiring("s", "a", `1`, u.now+10), expiring("s", "b", `1`, u.now+20), expiring("t", "c", `1`, u.now+30), put("t", "d", `1`))
	v.apply(expiring("s", "a", `1`, u.now+15), expiring("s", "b", `1`, u.now+25), expiring("s", "c", `1`, u.now+hour))
	equal(t, "before the first expires", u.sweep(10), 0)
	u.now += minute
	v.now = u.now
	mine, others := u.state(), v.state()
	for i, want := range []struct {
		n           int
		mine, other int64
	}{{2, 3, 2}, {2, 2, 1}, {1, 1, 1}, {0, 1, 1}} {
		equal(t, fmt.Sprint("sweep ", i), u.sweep(2), want.n)
		equal(t, "the remaining records", []int64{u.stored().Keys, v.stored().Keys}, []int64{want.mine, want.other})
		equal(t, "what a client sees", u.state().records, mine.records)
		equal(t, "what a client sees", v.state().records, others.records)
	}
	equal(t, "namespaces", u.audited().Namespaces, int64(1))
}

func sweepBoundary(t *testing.T, u *user) {
	u.clean()
	u.apply(expiring("s", "a", `1`, u.now+10), expiring("s", "b", `1`, u.now+11), put("s", "c", `1`))
	u.now += 9
	equal(t, "a millisecond before", u.sweep(10), 0)
	u.now++
	equal(t, "at the moment", u.sweep(10), 1)
	u.now -= 10
	u.wantGone("s", "a")
	u.now += 11
	equal(t, "at the next", u.sweep(10), 1)
	u.state()
}

func sweepTells(t *testing.T, u *user) {
	u.clean()
	u.apply(expiring("s", "b", `1`, u.now+10), expiring("s", "a", `1`, u.now+20), expiring("a", "z", `1`, u.now+10))
	u.apply(expiring("s", "b", `1`, u.now+10))
	u.now += minute
	equal(t, "sweep", u.drain(), 3)
	equal(t, "feed", u.changes(4), []ext.Change{
		{Seq: 5, Op: ext.ChangeExpire, Namespace: "a", Key: "z", Revision: 1, At: u.now},
		{Seq: 6, Op: ext.ChangeExpire, Namespace: "s", Key: "b", Revision: 2, At: u.now},
		{Seq: 7, Op: ext.ChangeExpire, Namespace: "s", Key: "a", Revision: 1, At: u.now},
	})
	equal(t, "counters", u.audited(), ext.Counters{})
	wantLives(t, u)
}

func sweepOrder(t *testing.T, u *user) {
	u.clean()
	u.apply(expiring("s", "a", `1`, u.now+30), expiring("s", "b", `1`, u.now+10), expiring("t", "c", `1`, u.now+20), expiring("t", "d", `1`, u.now+40),
		put("t", "e", `1`), expiring("t", "b", `1`, u.now+10), expiring("a", "z", `1`, u.now+10))
	u.apply(expiring("s", "b", `1`, u.now+10))
	u.now += 30
	before := u.state()
	equal(t, "sweeps", []int{u.sweep(2), u.sweep(2), u.sweep(2), u.sweep(2)}, []int{2, 2, 1, 0})
	var order []string
	for _, c := range u.changes(8) {
		equal(t, "op", c.Op, ext.ChangeExpire)
		order = append(order, string(c.Namespace)+string(c.Key))
		equal(t, "revision of "+string(c.Key), c.Revision, map[bool]ext.Revision{true: 2, false: 1}[c.Namespace == "s" && c.Key == "b"])
	}
	equal(t, "order", order, []string{"az", "sb", "tb", "tc", "sa"})
	after := u.state()
	equal(t, "records", after.records, before.records)
	equal(t, "stored counters", u.stored(), ext.Counters{Bytes: 6, Keys: 2, Namespaces: 1})
}

func sweepOnlyDue(t *testing.T, u *user) {
	u.clean()
	begin := u.now
	u.apply(expiring("s", "a", `1`, begin+second), expiring("s", "b", `1`, begin+second+1))
	_, err := u.applyOnce("key", 1)
	must(t, "Apply", err)
	u.now = begin + 30*day
	equal(t, "before the first expires", u.sweepDue(begin+second-1, 10), 0)
	equal(t, "when the first has expired", u.sweepDue(begin+second, 10), 1)
	equal(t, "its change", u.changes(2), []ext.Change{{Seq: 3, Op: ext.ChangeExpire, Namespace: "s", Key: "a", Revision: 1, At: u.now}})
	equal(t, "the record that is not due", u.at(begin).get("s", "b").Revision, ext.Revision(1))
	equal(t, "changes and answers are not due", u.sweepDue(begin+second, 10), 0)
	equal(t, "the answer", u.sweepDue(begin+answersKept, 10), 2)
	equal(t, "the changes", u.sweepDue(begin+changesKept, 10), 2)
	u.state()
}

func sweepCounters(t *testing.T, u *user) {
	u.clean()
	u.quota.Keys = 3
	u.apply(expiring("s", "a", `1`, u.now+10), expiring("s", "b", `1`, u.now+20), expiring("s", "c", `1`, u.now+30), expiring("t", "d", `1`, u.now+10))
	u.now += 10
	u.apply(put("s", "e", `12345`))
	equal(t, "stored counters", u.stored(), ext.Counters{Bytes: 13, Keys: 3, Namespaces: 1})
	u.now += 10
	equal(t, "sweep", u.sweep(10), 3)
	equal(t, "stored counters", u.stored(), ext.Counters{Bytes: 10, Keys: 2, Namespaces: 1})
	u.now += 10
	equal(t, "sweep", u.sweep(10), 1)
	equal(t, "stored counters", u.stored(), ext.Counters{Bytes: 7, Keys: 1, Namespaces: 1})
	u.state()
}

func clockTurnedBack(t *testing.T, u *user) {
	u.clean()
	u.apply(expiring("s", "a", `1`, u.now+minute), expiring("s", "b", `1`, u.now+hour))
	u.now += minute
	equal(t, "sweep", u.sweep(10), 1)
	u.now -= 30 * second
	u.wantKeys("after it", u.list(ext.Query{Namespace: "s"}), "b")
	equal(t, "a new life", u.do(put("s", "a", `1`)).Revision, ext.Revision(1))
	wantLives(t, u)
	u.state()
}

func sweepsChanges(t *testing.T, u *user) {
	u.clean()
	first := u.now
	u.apply(put("s", "a", `1`), put("s", "b", `1`))
	u.now += second
	u.apply(put("s", "c", `1`))
	u.now = first + changesKept - 1
	equal(t, "before their time", u.sweep(10), 0)
	equal(t, "feed", len(u.changes(0)), 3)
	u.now++
	equal(t, "at their time", u.sweep(10), 2)
	for since := range ext.Seq(2) {
		_, err := u.h.Store.Changes(t.Context(), u.owner, since, 10)
		wantError(t, fmt.Sprint("since ", since), err, ext.ErrChangesGone)
		wantCode(t, "its code", err, errcode.Invalid)
	}
	equal(t, "since the last swept change", keysOfChanges(u.changes(2)), []string{"c"})
	u.now += day
	equal(t, "the rest", u.sweep(10), 1)
	_, err := u.h.Store.Changes(t.Context(), u.owner, 2, 10)
	wantError(t, "when all are swept", err, ext.ErrChangesGone)
	equal(t, "from the end", u.feed(3, 10), ext.Feed{Last: 3})
	equal(t, "the next number", u.do(put("s", "d", `1`)).Seq, ext.Seq(4))
	equal(t, "records", len(u.state().records), 4)
}

func keysOfChanges(cs []ext.Change) (keys []string) {
	for _, c := range cs {
		keys = append(keys, string(c.Key))
	}
	return keys
}

func sweepsChangesOfOneMoment(t *testing.T, u *user) {
	u.clean()
	var ops []ext.Op
	for _, key := range []string{"e", "d", "c", "b", "a"} {
		ops = append(ops, put("s", key, `1`))
	}
	u.apply(ops...)
	u.now += 10 * day
	equal(t, "sweep", u.sweep(2), 2)
	equal(t, "the remaining changes", keysOfChanges(u.changes(2)), []string{"c", "b", "a"})
	_, err := u.h.Store.Changes(t.Context(), u.owner, 1, 10)
	wantError(t, "swept changes", err, ext.ErrChangesGone)
}

func sweepsUnderATurnedClock(t *testing.T, u *user) {
	u.clean()
	u.apply(put("s", "a", `1`))
	u.at(u.now - day).apply(put("s", "b", `1`))
	u.apply(put("s", "c", `1`))
	u.now += changesKept - 1
	equal(t, "sweep", u.sweep(10), 1)
	for since := ext.Seq(0); since < 3; {
		f, err := u.h.Store.Changes(t.Context(), u.owner, since, 10)
		if errors.Is(err, ext.ErrChangesGone) {
			since++
			continue
		}
		must(t, "Changes", err)
		for _, c := range f.Changes {
			if since++; c.Seq != since {
				t.Fatalf("change %d, want the one after %d", c.Seq, since)
			}
		}
	}
}

func sweepsAnswers(t *testing.T, u *user) {
	u.clean()
	for i := range 3 {
		_, err := u.applyOnce(fmt.Sprint(i), 1)
		must(t, "Apply", err)
	}
	u.now += answersKept - 1
	equal(t, "before their time", u.sweep(10), 0)
	a, err := u.applyOnce("0", 1)
	must(t, "Apply", err)
	equal(t, "replayed", a.Replayed, true)
	u.now++
	equal(t, "at their time", []int{u.sweep(2), u.sweep(2), u.sweep(2)}, []int{2, 1, 0})
	a, err = u.applyOnce("0", 2)
	must(t, "Apply", err)
	equal(t, "replayed", a.Replayed, false)
}

func sweepsTokens(t *testing.T, u *user) {
	u.clean()
	for i := range ext.Moment(3) {
		u.revokeToken(fmt.Sprint(i), u.now+minute+i)
	}
	u.now += minute
	equal(t, "revoked", u.revoked(), []string{"1", "2"})
	equal(t, "before they are due", u.sweepDue(u.now-1, 10), 0)
	equal(t, "sweeps", []int{u.sweep(10), u.sweep(10)}, []int{1, 0})
	u.now += hour
	equal(t, "sweeps", []int{u.sweep(1), u.sweep(1), u.sweep(1)}, []int{1, 1, 0})
	equal(t, "after the clock was set back", u.at(u.now-2*hour).revoked(), []string(nil))
}

func sweepsByKind(t *testing.T, u *user) {
	u.clean()
	u.apply(expiring("s", "a", `1`, u.now+10))
	for _, key := range []string{"1", "2"} {
		_, err := u.applyOnce(key, 1)
		must(t, "Apply", err)
	}
	for _, id := range []string{"1", "2", "3", "4"} {
		u.revokeToken(id, u.now+second)
	}
	u.now += 10 * day
	want := map[ext.Swept]int{ext.SweptTokens: 4, ext.SweptAnswers: 2, ext.SweptRecords: 1, ext.SweptChanges: 1}
	for _, kind := range []ext.Swept{ext.SweptTokens, ext.SweptAnswers, ext.SweptRecords, ext.SweptChanges} {
		equal(t, fmt.Sprint("rows of kind ", kind), []int{u.sweepKind(kind, u.now, 100), u.sweepKind(kind, u.now, 100)}, []int{want[kind], 0})
	}
}

func sweepWhileWritten(t *testing.T, u *user) {
	u.clean()
	for range 5 {
		u := u.other()
		const records = 30
		var ops []ext.Op
		for i := range records {
			ops = append(ops, expiring("s", fmt.Sprintf("%02d", i), `"dead"`, u.now+second))
		}
		u.apply(ops...)
		u.now += minute
		errs := testdb.Concurrently(4, func(caller int) (err error) {
			for i := caller; i < records && err == nil; i += 4 {
				if caller == 0 {
					_, err = u.h.Store.Sweep(t.Context(), ext.SweptRecords, u.now, u.now, 7)
				} else {
					_, err = u.try(put("s", fmt.Sprintf("%02d", i), `"alive"`), expiring("t", fmt.Sprint(i), `1`, u.now))
				}
			}
			return err
		})
		must(t, "sweeps and writes", errors.Join(errs...))
		u.drain()
		equal(t, "records", len(u.state().records), records-(records+3)/4)
		wantLives(t, u)
	}
}

func sweepFault(t *testing.T, u *user) {
	p := u.faulty(t)
	u.clean()
	u.apply(expiring("s", "a", `1`, u.now+10), expiring("s", "b", `1`, u.now+10), put("s", "c", `1`))
	_, err := u.applyOnce("key", 1)
	must(t, "Apply", err)
	u.now += 10 * day
	for kind := range ext.SweptKinds {
		p.FailEach(t, "Sweep", func() (operation func() error, check func(what string)) {
			before := u.state()
			return func() error { _, err := u.h.Store.Sweep(t.Context(), kind, u.now, u.now, 100); return err },
				func(what string) { equal(t, "what a client sees after "+what, u.state().records, before.records) }
		})
	}
	u.drain()
	equal(t, "records", u.audited().Keys, int64(1))
	equal(t, "the last change", u.state().last, ext.Seq(5))
}
