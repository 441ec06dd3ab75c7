package storetest

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

func batchChecks() []check {
	return []check{
		{"InOrder", batchInOrder},
		{"Empty", batchEmpty},
		{"SameKeyTwice", sameKeyTwice},
		{"FailureAtEveryPlace", failureAtEveryPlace},
		{"ChecksOnly", checksOnly},
		{"CheckHoldsTheOthers", checkHolds},
		{"Namespaces", batchNamespaces},
		{"SeenWhole", seenWhole},
		{"Transfer", transfer},
	}
}

func batchInOrder(t *testing.T, u *user) {
	u.apply(put("settings", "b", `"old"`), put("settings", "c", `"old"`))
	a := u.apply(put("settings", "z", `1`), put("settings", "b", `1`), del("settings", "c"), del("settings", "none"), look("settings", "none"), put("log", "a", `1`))
	n := u.now
	equal(t, "items", a.Items, []ext.Item{
		{Revision: 1, Seq: 3, Created: true, CreatedAt: n, UpdatedAt: n},
		{Revision: 2, Seq: 4, CreatedAt: n, UpdatedAt: n},
		{Existed: true},
		{}, {},
		{Revision: 1, Seq: 6, Created: true, CreatedAt: n, UpdatedAt: n},
	})
	equal(t, "changes", u.changes(2), []ext.Change{
		{Seq: 3, Op: ext.ChangePut, Namespace: "settings", Key: "z", Revision: 1, At: n},
		{Seq: 4, Op: ext.ChangePut, Namespace: "settings", Key: "b", Revision: 2, At: n},
		{Seq: 5, Op: ext.ChangeDelete, Namespace: "settings", Key: "c", Revision: 1, At: n},
		{Seq: 6, Op: ext.ChangePut, Namespace: "log", Key: "a", Revision: 1, At: n},
	})
	equal(t, "counters", u.audited(), ext.Counters{Bytes: 9, Keys: 3, Namespaces: 2})
	u.state()
}

func (u *user) after(ops ...ext.Op) ext.Counters {
	u.t.Helper()
	u.apply(ops...)
	return u.audited()
}

func batchEmpty(t *testing.T, u *user) {
	equal(t, "items", len(u.apply().Items), 0)
	u.wantState("nothing", state{})
	u.apply(put("settings", "a", `1`))
	equal(t, "counters", u.after(), ext.Counters{Bytes: 3, Keys: 1, Namespaces: 1})
}

func sameKeyTwice(t *testing.T, u *user) {
	a := u.apply(put("s", "a", `1`), put("s", "a", `22`), guarded(put("s", "a", `333`), ifRevision(2)))
	equal(t, "revisions", []ext.Revision{a.Items[0].Revision, a.Items[1].Revision, a.Items[2].Revision}, []ext.Revision{1, 2, 3})
	equal(t, "value", u.get("s", "a").Value, canonjson.Value(`333`))
	a = u.apply(del("s", "a"), guarded(put("s", "a", `4`), ifRevision(0)), del("s", "a"), del("s", "a"))
	equal(t, "revision of a new life", a.Items[1].Revision, ext.Revision(1))
	equal(t, "found", []bool{a.Items[0].Existed, a.Items[2].Existed, a.Items[3].Existed}, []bool{true, true, false})
	equal(t, "counters", u.audited(), ext.Counters{})
	_, err := u.try(put("s", "a", `1`), guarded(put("s", "a", `2`), ifRevision(0)))
	wantError(t, "a precondition that a neighbour broke", err, item(1, &ext.MismatchError{Current: 1}))
	wantLives(t, u)
	u.state()
}

func failureAtEveryPlace(t *testing.T, u *user) {
	u.apply(put("s", "there", `1`), expiring("s", "expired", `1`, u.now+minute))
	u.now += minute
	before := u.state()
	const n = 20
	for at := range n {
		for what, bad := range map[string]struct {
			op  ext.Op
			err error
		}{
			"put":    {guarded(put("s", "there", `2`), ifRevision(0)), &ext.MismatchError{Current: 1}},
			"delete": {guarded(del("s", "expired"), ifMatch(2)), &ext.MismatchError{Header: true}},
			"check":  {guarded(look("s", "none"), ifAny), &ext.MismatchError{Header: true}},
			"schema": {func() ext.Op { op := put("s", "x", `1`); op.Schema = 3; return op }(), ext.ErrSchemaChanged},
		} {
			ops := make([]ext.Op, n)
			for i := range ops {
				if ops[i] = put(fmt.Sprint("n", i%3), fmt.Sprint(i), `1`); i%5 == 0 {
					ops[i] = del("s", "expired")
				}
			}
			ops[at] = bad.op
			_, err := u.try(ops...)
			wantError(t, fmt.Sprintf("%s at %d", what, at), err, item(at, bad.err))
		}
	}
	u.wantState("the failed batches", before)
}

func checksOnly(t *testing.T, u *user) {
	it := u.do(put("s", "a", `1`))
	before, events := u.state(), u.events()
	u.now += minute
	a := u.apply(guarded(look("s", "a"), ifRevision(1)), guarded(look("s", "a"), ifMatch(it.Seq)), guarded(look("s", "b"), ifRevision(0)), look("s", "b"))
	equal(t, "items", a.Items, []ext.Item{
		{Revision: 1, Seq: 1, CreatedAt: t0, UpdatedAt: t0}, {Revision: 1, Seq: 1, CreatedAt: t0, UpdatedAt: t0}, {}, {},
	})
	equal(t, "counters", u.audited(), before.counters)
	u.wantState("checks", before)
	equal(t, "events", u.events(), events)
}

func checkHolds(t *testing.T, u *user) {
	lock := u.do(put("s", "lock", `0`))
	errs := testdb.Concurrently(parallel, func(i int) error {
		_, err := u.try(put("s", "first", fmt.Sprint(i)), guarded(look("s", "lock"), ifMatch(lock.Seq)), put("s", "lock", fmt.Sprint(i)), put("s", "last", fmt.Sprint(i)))
		return err
	})
	equal(t, "winners", suite.Winners(t, errs, isMismatch), 1)
	winner := u.get("s", "lock").Value
	equal(t, "the records of the successful batch", []canonjson.Value{u.get("s", "first").Value, u.get("s", "last").Value}, []canonjson.Value{winner, winner})
}

func batchNamespaces(t *testing.T, u *user) {
	equal(t, "made and left", u.after(put("x", "a", `1`), del("x", "a")), ext.Counters{})
	equal(t, "two", u.after(put("x", "a", `1`), put("y", "a", `1`), put("x", "b", `1`)).Namespaces, int64(2))
	equal(t, "moved", u.after(del("y", "a"), put("z", "a", `1`)).Namespaces, int64(2))
	equal(t, "left and made", u.after(del("z", "a"), put("z", "a", `1`)).Namespaces, int64(2))
	equal(t, "one key less", u.after(del("x", "a")), ext.Counters{Bytes: 6, Keys: 2, Namespaces: 2})
	equal(t, "all gone", u.after(del("z", "a"), del("x", "b")), ext.Counters{})
	u.state()
}

func seenWhole(t *testing.T, u *user) {
	u.apply(put("s", "a", `0`), put("s", "b", `0`), put("s", "c", `0`))
	errs := testdb.Concurrently(8, func(i int) error {
		for j := range 20 {
			if i%2 == 0 {
				v := fmt.Sprint(i*100 + j)
				if _, err := u.try(put("s", "c", v), put("s", "a", v), put("s", "b", v)); err != nil {
					return err
				}
				continue
			}
			p, err := u.h.Store.List(t.Context(), u.owner, ext.Query{Namespace: "s", Values: true, Limit: 100, Now: u.now})
			if err != nil {
				return err
			}
			for _, r := range p.Records {
				if r.Value != p.Records[0].Value || len(p.Records) != 3 {
					return fmt.Errorf("a list with a part of a batch: %+v", p.Records)
				}
			}
		}
		return nil
	})
	must(t, "writers and readers", errors.Join(errs...))
}

func transfer(t *testing.T, u *user) {
	const accounts, each = 4, 6
	for i := range accounts {
		u.apply(put("s", fmt.Sprint(i), `100`))
	}
	get := func(i int) (ext.Record, error) {
		return u.h.Store.Get(t.Context(), u.owner, "s", ext.Key(fmt.Sprint(i)), u.now)
	}
	add := func(r ext.Record, by canonjson.Number) (ext.Op, error) {
		v, _, err := (&canonjson.Increment{By: by}).Apply(r.Value, 100)
		return guarded(put("s", string(r.Key), string(v)), ifMatch(r.Seq)), err
	}
	errs := testdb.Concurrently(parallel, func(i int) error {
		for done := 0; done < each; {
			from, err := get(i % accounts)
			to, err2 := get((i + 1 + done%(accounts-1)) % accounts)
			a, err3 := add(from, "-1")
			b, err4 := add(to, "1")
			if err := errors.Join(err, err2, err3, err4); err != nil {
				return err
			}
			switch _, err := u.try(a, b); {
			case err == nil:
				done++
			case !isMismatch(err):
				return err
			}
		}
		return nil
	})
	must(t, "transfers", errors.Join(errs...))
	sum := canonjson.Value(`0`)
	for i := range accounts {
		r, err := get(i)
		must(t, "Get", err)
		sum, _, err = (&canonjson.Increment{By: canonjson.Number(r.Value)}).Apply(sum, 100)
		must(t, "add", err)
	}
	equal(t, "sum", sum, canonjson.Value(`400`))
}
