package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/testdb"
)

func reviseChecks() []check {
	return []check{
		{"Found", reviseFound},
		{"InABatch", reviseInABatch},
		{"Refused", reviseRefused},
		{"Quota", reviseQuota},
		{"Replay", reviseReplay},
		{"Counter", func(t *testing.T, u *user) { reviseTogether(t, u, 0) }},
		{"CounterWithSchema", func(t *testing.T, u *user) {
			reviseTogether(t, u, u.activate("s", u.register("s", `{}`).Version).Version)
		}},
		{"SchemaChanges", reviseSchemaChanges},
	}
}

var errNotNumber error = errcode.New(errcode.Invalid, "not a number")

func add(ns, key string, by canonjson.Number) ext.Op {
	op := put(ns, key, "")
	op.Keep = true
	op.Revise = func(before canonjson.Value) (canonjson.Value, canonjson.Number, error) {
		v, sum, err := (&canonjson.Increment{By: by, Create: true}).Apply(before, ext.MaxValueBytes)
		if err != nil {
			err = errNotNumber
		}
		return v, sum, err
	}
	return op
}

func merge(ns, key string, patch canonjson.Value) ext.Op {
	op := put(ns, key, "")
	op.Keep = true
	op.Revise = func(before canonjson.Value) (canonjson.Value, canonjson.Number, error) {
		if before == "" {
			return "", "", ext.ErrNoRecord
		}
		v, err := before.Merge(patch, ext.MaxValueBytes)
		return v, "", err
	}
	return op
}

func checked(op ext.Op, v ext.SchemaVersion) ext.Op { op.Schema = v; return op }

func reviseFound(t *testing.T, u *user) {
	first := u.do(add("s", "n", "0.1"))
	equal(t, "of an absent record", first, ext.Item{Revision: 1, Seq: 1, Created: true, CreatedAt: u.now, UpdatedAt: u.now, Sum: "0.1"})
	equal(t, "the number", u.get("s", "n").Value, `0.1`)
	equal(t, "more", u.do(add("s", "n", "12345678901234567890.2")).Sum, "12345678901234567890.3")
	op := expiring("s", "k", `{"a":1,"b":[1]}`, u.now+hour)
	op.Metadata = `{"m":1}`
	made := u.do(op)
	u.now += minute
	got := u.do(merge("s", "k", `{"b":null,"c":{"d":null,"e":1}}`))
	equal(t, "a patch", got, ext.Item{Revision: 2, Seq: 4, CreatedAt: made.CreatedAt, UpdatedAt: u.now, ExpiresAt: made.ExpiresAt})
	r := u.get("s", "k")
	equal(t, "the record", []canonjson.Value{r.Value, r.Metadata}, []canonjson.Value{`{"a":1,"c":{"e":1}}`, `{"m":1}`})
	u.now += hour
	_, err := u.try(merge("s", "k", `{}`))
	wantError(t, "a patch of an expired record", err, item(0, ext.ErrNoRecord))
	equal(t, "an increment of an expired record", u.do(add("s", "k", "7")), ext.Item{Revision: 1, Seq: 5, Created: true, CreatedAt: u.now, UpdatedAt: u.now, Sum: "7"})
	equal(t, "metadata of a new life", u.get("s", "k").Metadata, canonjson.EmptyObject)
	u.state()
}

func reviseInABatch(t *testing.T, u *user) {
	u.apply(put("s", "a", `1`), put("s", "b", `{"x":1}`))
	a := u.apply(add("s", "a", "1"), guarded(look("s", "a"), ifRevision(2)), add("s", "a", "1"), merge("s", "b", `{"y":2}`), put("s", "a", `10`),
		guarded(add("s", "a", "5"), ifRevision(4)), del("s", "a"), add("s", "a", "2"), look("s", "b"), merge("s", "b", `{"x":null}`), add("t", "a", "3"))
	var sums []canonjson.Number
	for _, it := range a.Items {
		sums = append(sums, it.Sum)
	}
	equal(t, "sums", sums, []canonjson.Number{"2", "", "3", "", "", "15", "", "2", "", "", "3"})
	equal(t, "values", []canonjson.Value{u.get("s", "a").Value, u.get("s", "b").Value, u.get("t", "a").Value}, []canonjson.Value{`2`, `{"y":2}`, `3`})
	u.apply(look("s", "a"), add("s", "a", "1"))
	equal(t, "after a check", u.get("s", "a").Value, `3`)
	u.state()
}

func reviseRefused(t *testing.T, u *user) {
	u.apply(put("s", "a", `1`), put("s", "text", `"x"`))
	before, events := u.state(), u.events()
	for _, c := range []struct {
		what string
		ops  []ext.Op
		want error
	}{
		{"no number", []ext.Op{add("s", "text", "1")}, item(0, errNotNumber)},
		{"not a number, after a put", []ext.Op{put("s", "b", `1`), add("s", "text", "1")}, item(1, errNotNumber)},
		{"not a number after an operation of the batch", []ext.Op{put("s", "a", `"x"`), add("s", "a", "1")}, item(1, errNotNumber)},
		{"no record after an operation of the batch", []ext.Op{del("s", "a"), merge("s", "a", `{}`)}, item(1, ext.ErrNoRecord)},
		{"a precondition", []ext.Op{guarded(add("s", "a", "1"), ifRevision(2))}, item(0, mismatch(1))},
		{"the precondition is checked before the value", []ext.Op{guarded(add("s", "text", "1"), ifMatch(9))}, item(0, headerMismatch(1))},
		{"a precondition on an absent record", []ext.Op{guarded(merge("s", "none", `1`), ifRevision(2))}, item(0, mismatch(0))},
		{"a record exists where none is required", []ext.Op{guarded(add("s", "a", "1"), ifRevision(0))}, item(0, mismatch(1))},
		{"a precondition in between", []ext.Op{add("s", "a", "1"), guarded(add("s", "a", "1"), ifRevision(1)), add("s", "text", "1")}, item(1, mismatch(2))},
		{"a check before", []ext.Op{guarded(look("s", "a"), ifRevision(9)), add("s", "text", "1")}, item(0, mismatch(1))},
		{"a check after", []ext.Op{add("s", "text", "1"), guarded(look("s", "a"), ifRevision(9))}, item(0, errNotNumber)},
		{"no such schema", []ext.Op{checked(add("s", "a", "1"), 7)}, item(0, ext.ErrSchemaChanged)},
	} {
		_, err := u.try(c.ops...)
		wantError(t, c.what, err, c.want)
		_, err = u.applyOnce("key", 1, c.ops...)
		wantError(t, c.what+", with a key", err, c.want)
	}
	u.wantState("refusals", before)
	equal(t, "events", u.events(), events)
}

func reviseQuota(t *testing.T, u *user) {
	u.apply(put("s", "a", `99`))
	u.quota.Bytes = 4
	_, err := u.try(add("s", "a", "1"))
	wantError(t, "a longer number", err, item(0, &ext.QuotaError{What: "bytes", Limit: 4, Used: 5}))
	equal(t, "a shorter one", u.do(add("s", "a", "-90")).Sum, "9")
	u.state()
}

func reviseReplay(t *testing.T, u *user) {
	u.apply(put("s", "p", `{"a":1}`))
	ops := []ext.Op{add("s", "n", "0.5"), put("s", "x", `1`), add("s", "n", "1e30"), merge("s", "p", `{"b":2}`), look("s", "n"), del("s", "x")}
	first, err := u.applyOnce("key", 1, ops...)
	must(t, "Apply", err)
	equal(t, "sums", []canonjson.Number{first.Items[0].Sum, first.Items[2].Sum}, []canonjson.Number{"0.5", "1000000000000000000000000000000.5"})
	first.Replayed = true
	for _, since := range [][]ext.Op{
		nil,
		{add("s", "n", "1"), merge("s", "p", `{"b":3}`)},
		{put("s", "n", `"no number"`), del("s", "p")},
		{del("s", "n")},
	} {
		u.now += minute
		u.apply(since...)
		before, events := u.state(), u.events()
		again, err := u.applyOnce("key", 1, ops...)
		must(t, "Apply again", err)
		equal(t, "the answer again", again, first)
		_, err = u.applyOnce("key", 2, ops...)
		wantError(t, "another request", err, ext.ErrKeyReused)
		u.wantState("what came again", before)
		equal(t, "events", u.events(), events)
	}
}

func reviseTogether(t *testing.T, u *user, v ext.SchemaVersion) {
	const each = 8
	u.apply(checked(put("s", "members", `{}`), v))
	sums := make([][]canonjson.Number, parallel)
	errs := testdb.Concurrently(parallel, func(i int) error {
		for n := range each {
			w := u.write(checked(add("s", "counter", "0.1"), v), checked(merge("s", "members", canonjson.Value(fmt.Sprintf(`{"m%d-%d":1}`, i, n))), v))
			if n%2 == 1 {
				w.Ops = append(w.Ops, checked(put("s", fmt.Sprint("own", i), `1`), v))
			}
			key := fmt.Sprintf("%d-%d", i, n)
			w.IdempotencyKey = &ext.IdempotencyKey{Key: key}
			a, err := u.h.Store.Apply(t.Context(), u.owner, w)
			if err != nil {
				return err
			}
			sums[i] = append(sums[i], a.Items[0].Sum)
			again, err := u.h.Store.Apply(t.Context(), u.owner, w)
			if err != nil {
				return err
			}
			if a.Replayed = true; !again.Replayed || again.Items[0] != a.Items[0] {
				t.Errorf("%s again: %+v, want %+v", key, again, a)
			}
			if _, err := u.try(checked(put("s", "counter2", `1`), v)); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, "Apply", errors.Join(errs...))
	all := slices.Concat(sums...)
	slices.SortFunc(all, canonjson.Number.Compare)
	for i, sum := range all {
		want := strings.TrimSuffix(fmt.Sprintf("%d.%d", (i+1)/10, (i+1)%10), ".0")
		equal(t, "sum", string(sum), want)
	}
	counter := u.get("s", "counter")
	equal(t, "the counter", string(counter.Value), string(all[len(all)-1]))
	equal(t, "its revision", counter.Revision, ext.Revision(parallel*each))
	members := u.get("s", "members")
	equal(t, "revision of the members", members.Revision, ext.Revision(1+parallel*each))
	for i := range parallel {
		for n := range each {
			if _, ok := members.Value.Lookup(canonjson.Pointer{fmt.Sprintf("m%d-%d", i, n)}); !ok {
				t.Errorf("member %d-%d is lost", i, n)
			}
		}
	}
	u.state()
}

func reviseSchemaChanges(t *testing.T, u *user) {
	one := u.activate("s", u.register("s", `{}`).Version).Version
	two := u.register("s", `{}`).Version
	u.apply(checked(add("s", "n", "1"), one))
	u.activate("s", two)
	for _, v := range []ext.SchemaVersion{0, one} {
		_, err := u.try(checked(add("s", "n", "1"), v))
		wantError(t, "with a schema that is not active", err, item(0, ext.ErrSchemaChanged))
	}
	equal(t, "with the active one", u.do(checked(add("s", "n", "1"), two)).Sum, "2")
}
