package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/testdb"
)

func sweepChecks() []check {
	return []check{
		{"Bounded", sweepBounded},
		{"Boundary", sweepBoundary},
		{"Counters", sweepCounters},
		{"Stamps", sweepStamps},
		{"Batches", sweepBatches},
		{"BatchesInSteps", sweepBatchesInSteps},
		{"WhileWritten", sweepWhileWritten},
		{"AgainstWritesOverTheExpired", sweepAgainstWrites},
		{"Fault", faultySweep},
	}
}

const lastSweep = early + 10_000*hour

func (u *user) sweep(limit int) int {
	u.t.Helper()
	n, err := u.store.Sweep(u.t.Context(), u.now, limit)
	must(u.t, "Sweep", err)
	if u.h.Reap != nil {
		equal(u.t, "the number that Sweep removed", n, 0)
		n, err = u.h.Reap(u.t.Context(), u.now)
		must(u.t, "Reap", err)
		return n
	}
	if n < 0 || n > limit {
		u.t.Errorf("Sweep removed %d of at most %d", n, limit)
	}
	return n
}

func (u *user) drain() (total int) {
	u.t.Helper()
	for {
		n := u.sweep(100)
		if n == 0 {
			return total
		}
		total += n
	}
}

func sweepBounded(t *testing.T, u *user) {
	u.at(lastSweep).drain()
	v := u.other()
	u.post("tabs", expiring("a", "x", 10), expiring("b", "x", 20), expiring("c", "x", 30), bso("d", "x"))
	v.post("forms", expiring("a", "x", 10), expiring("b", "x", 20), expiring("c", "x", 3600))
	equal(t, "sweep before the first expiry", u.sweep(10), 0)
	u.wait(60e9)
	v.now = u.now
	before, other := u.state(), v.state()
	for _, want := range []int{2, 2, 1, 0, 0} {
		equal(t, "sweep", u.sweep(2), want)
		u.wantState("a sweep", before)
		v.wantState("a sweep", other)
	}
	equal(t, "the record with the longer ttl", u.at(early+2*hour).drain(), 1)
}

func sweepBoundary(t *testing.T, u *user) {
	u.at(lastSweep).drain()
	u.post("tabs", expiring("a", "x", 10), expiring("b", "x", 11), bso("c", "x"))
	u.now = early + 10*second - 1
	equal(t, "sweep before the expiry", u.sweep(10), 0)
	u.now++
	equal(t, "sweep at the expiry", u.sweep(10), 1)
	u.now = early
	u.wantVisible("with the clock back before the expiry", "tabs", "b", "c")
	u.now = early + 11*second
	equal(t, "sweep at the next", u.sweep(10), 1)
	u.wantVisible("after it", "tabs", "c")
}

func sweepCounters(t *testing.T, u *user) {
	u.at(lastSweep).drain()
	u.post("tabs", expiring("a", xs(10), 10), expiring("b", xs(20), 10), bso("c", xs(30)))
	u.put("forms", expiring("a", xs(40), 10))
	u.wait(20e9)
	u.put("tabs", bso("b", xs(5)))
	equal(t, "sweep", u.drain(), 2)
	u.wantUsage("the sweep", "tabs", 2, 35)
	u.wantUsage("the sweep", "forms", 0, 0)
	w, err := u.store.Put(t.Context(), u.owner, u.limited("forms", 100), bso("b", xs(65)))
	must(t, "Put up to the quota", err)
	equal(t, "Used", w.Used.User, 100)
	_, err = u.store.Put(t.Context(), u.owner, u.limited("tabs", 100), bso("a", "x"))
	wantError(t, "Put over the quota", err, ss.ErrQuota)
	u.deleteBSOs("tabs", "a", "b", "c")
	u.wantUsage("the delete of the rest", "tabs", 0, 0)
}

func sweepStamps(t *testing.T, u *user) {
	u.at(lastSweep).drain()
	u.put("tabs", expiring("a", "x", 10))
	u.put("forms", bso("a", "x"))
	before := u.collections()
	u.wait(60e9)
	equal(t, "sweep", u.drain(), 1)
	after := u.collections()
	equal(t, "stamps", fmt.Sprint(after.Modified, len(after.Stamps)), fmt.Sprint(before.Modified, len(before.Stamps)))
	_, err := u.store.Put(t.Context(), u.owner, u.writeIf("tabs", ifUnmodifiedSince(0)), bso("a", "y"))
	must(t, "create-only over a swept record", err)
}

func sweepBatches(t *testing.T, u *user) {
	u.at(lastSweep).drain()
	u.put("tabs", bso("a", "x"))
	old, hidden := u.stage("tabs", bso("b", "x")), u.stage("forms", bso("b", "x"))
	u.now += hour
	young, younger := u.stage("tabs", bso("c", "x")), u.stage("forms", bso("c", "x"))
	equal(t, "sweep before the end", u.drain(), 0)
	u.now += hour
	if n := u.drain(); n < 2 {
		t.Errorf("a sweep of two batches removed %d", n)
	}
	u.now -= hour
	for collection, b := range map[string]ss.BatchID{"tabs": old, "forms": hidden} {
		_, err := u.store.Commit(t.Context(), u.owner, u.write(collection), ss.BatchPart{ID: b, Limits: limits()})
		wantError(t, "Commit in "+collection, err, ss.ErrNoBatch)
	}
	equal(t, "collections", len(u.state().collections), 1)
	u.commit("tabs", young)
	u.commit("forms", younger)
	equalIDs(t, "tabs", u.list("tabs"), "a", "c")
	equalIDs(t, "forms", u.list("forms"), "c")

	u.stage("forms", bso("d", "x"))
	before := u.state()
	u.now += 3 * hour
	u.drain()
	u.wantState("the sweep of a batch in a collection", before)

	v := u.other()
	v.stage("forms", bso("a", "x"))
	v.now += 3 * hour
	v.drain()
	v.wantState("the sweep of a hidden collection", state{})
	v.put("forms", bso("a", "x"))
	v.wantUsage("the first write", "forms", 1, 1)
}

func sweepBatchesInSteps(t *testing.T, u *user) {
	u.at(lastSweep).drain()
	var us []ss.Update
	for i := range 10 {
		us = append(us, bso(fmt.Sprint(i), "x"))
	}
	for _, sweeps := range []int{1, 2, 3, 20} {
		u := u.other()
		b := u.stage("tabs", us...)
		u.now += 2 * hour
		for range sweeps {
			u.sweep(3)
		}
		u.now = early
		_, err := u.store.Commit(t.Context(), u.owner, u.write("tabs"), ss.BatchPart{ID: b, Limits: limits()})
		switch n := len(u.list("tabs").records); {
		case err == nil && n != len(us), err != nil && n != 0:
			t.Errorf("after %d sweeps a commit returned %v and left %d records of %d", sweeps, err, n, len(us))
		case err != nil:
			wantError(t, "Commit", err, ss.ErrNoBatch)
		}
		u.at(lastSweep).drain()
	}
}

func sweepWhileWritten(t *testing.T, u *user) {
	u.at(lastSweep).drain()
	const writers, writes = 6, 15
	later := u.at(early + 5*second)
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for j := 0; j < writes && errs[i] == nil; j++ {
				name, id := []string{"tabs", "forms"}[i%2], fmt.Sprint(j%5)
				switch {
				case i == 0:
					_, errs[i] = u.store.Sweep(t.Context(), later.now, 3)
				case j%4 == 3:
					_, errs[i] = u.store.DeleteBSO(t.Context(), u.owner, later.write(name), id)
					if errcode.Is(errs[i], errcode.NotFound) {
						errs[i] = nil
					}
				default:
					_, errs[i] = u.store.Post(t.Context(), u.owner, u.write(name), []ss.Update{expiring(id, xs(int64(i)), 1), bso("stays", xs(int64(j)))})
				}
			}
		})
	}
	wg.Wait()
	must(t, "a step", errors.Join(errs...))
	later.state()
	u.at(lastSweep).drain()
	later.state()
	later.deleteBSOs("tabs", "stays")
	later.deleteBSOs("forms", "stays")
	u.at(lastSweep).wantUsage("everything", "tabs", 0, 0)
}

func sweepAgainstWrites(t *testing.T, u *user) {
	u.at(lastSweep).drain()
	const rounds, records = 8, 30
	id := func(i int) string { return fmt.Sprintf("%02d", i) }
	for range rounds {
		u := u.other()
		var us []ss.Update
		for i := range records {
			us = append(us, expiring(id(i), "dead", 1))
		}
		u.post("tabs", us...)
		u.wait(60e9)
		errs := testdb.Concurrently(4, func(caller int) (err error) {
			for i := caller; i < records && err == nil; i += 4 {
				if caller == 0 {
					_, err = u.store.Sweep(t.Context(), u.now, 7)
				} else {
					_, err = u.store.Put(t.Context(), u.owner, u.write("tabs"), bso(id(i), "alive"))
				}
			}
			return err
		})
		must(t, "sweeps and writes", errors.Join(errs...))
		u.drain()
		equal(t, "records written", len(u.state().collections["tabs"].list), records-(records+3)/4)
	}
}
