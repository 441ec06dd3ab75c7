package storetest

import (
	"testing"

	ss "holdfast/internal/extstorage"
)

// Moments of the cases: the first operation, and the second one an hour later.
const (
	CaseFirst  ss.Moment = 1_700_000_000_123
	CaseSecond           = CaseFirst + 3_600_000
)

// JudgeCase is a line of the table that defines Op.Judge: what an operation at
// CaseSecond does after one at CaseFirst. Both are on the same key of an install
// that has nothing else, so that the changes are 1 and 2.
type JudgeCase struct {
	Name   string
	First  *ss.Op // a put; nil: no record is there
	Active ss.SchemaVersion
	Second ss.Op

	Err    error
	Item   ss.Item
	Change ss.ChangeOp // "": none
	Delta  ss.Delta
	Row    *Row // afterwards; nil: none
}

// Row is a stored record as the cases tell of it.
type Row struct {
	Value, Metadata                 ss.Value
	Revision                        ss.Revision
	Seq                             ss.Seq
	CreatedAt, UpdatedAt, ExpiresAt ss.Moment
}

// JudgeCases is the table.
func JudgeCases() []JudgeCase {
	const (
		soon  = CaseSecond + 1
		later = CaseSecond + 3_600_000
	)
	of := func(kind ss.OpKind, g ss.Guard) ss.Op {
		return ss.Op{Kind: kind, Namespace: "settings", Key: "a", Guard: g}
	}
	write := func(value, metadata ss.Value, expires ss.Moment, g ss.Guard) ss.Op {
		op := of(ss.Put, g)
		op.Value, op.Metadata, op.ExpiresAt = value, metadata, expires
		return op
	}
	keep := func(op ss.Op) ss.Op { op.Keep = true; return op }
	by := func(op ss.Op, v ss.SchemaVersion) ss.Op { op.Schema = v; return op }
	var (
		none    ss.Guard
		old     = write(`"old"`, `{"m":1}`, 0, none) // 5 and 7 bytes
		ends    = write(`"old"`, `{"m":1}`, soon, none)
		over    = write(`"old"`, `{"m":1}`, CaseSecond, none) // to the millisecond
		first   = &Row{`"old"`, `{"m":1}`, 1, 1, CaseFirst, CaseFirst, 0}
		expired = &Row{`"old"`, `{"m":1}`, 1, 1, CaseFirst, CaseFirst, CaseSecond}
	)
	itemOf := func(r *Row, created bool) ss.Item {
		return ss.Item{Revision: r.Revision, Seq: r.Seq, Created: created, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, ExpiresAt: r.ExpiresAt}
	}
	row := func(value, metadata ss.Value, revision ss.Revision, seq ss.Seq, created, expires ss.Moment) *Row {
		return &Row{value, metadata, revision, seq, created, CaseSecond, expires}
	}
	var all []JudgeCase
	puts := func(name string, f *ss.Op, op ss.Op, want *Row, created bool, keys, bytes int64) {
		all = append(all, JudgeCase{Name: name, First: f, Active: op.Schema, Second: op, Item: itemOf(want, created), Change: ss.ChangePut, Delta: ss.Delta{Keys: keys, Bytes: bytes}, Row: want})
	}
	fails := func(name string, f *ss.Op, op ss.Op, left *Row, err error) {
		all = append(all, JudgeCase{Name: name, First: f, Second: op, Err: err, Row: left})
	}
	mismatch := func(r ss.Revision) error { return &ss.MismatchError{Current: r} }
	header := func(r ss.Revision) error { return &ss.MismatchError{Current: r, Header: true} }

	puts("put new", nil, write(`1`, `{}`, 0, none), row(`1`, `{}`, 1, 1, CaseSecond, 0), true, 1, 3)
	puts("put new with a time to live", nil, write(`1`, `{}`, later, none), row(`1`, `{}`, 1, 1, CaseSecond, later), true, 1, 3)
	puts("put new that keeps", nil, keep(write(`1`, `{}`, later, none)), row(`1`, `{}`, 1, 1, CaseSecond, later), true, 1, 3)
	puts("put over", &old, write(`1`, `{}`, 0, none), row(`1`, `{}`, 2, 2, CaseFirst, 0), false, 0, -9)
	puts("put the same", &old, old, row(`"old"`, `{"m":1}`, 2, 2, CaseFirst, 0), false, 0, 0)
	puts("put takes the time to live away", &ends, write(`1`, `{}`, 0, none), row(`1`, `{}`, 2, 2, CaseFirst, 0), false, 0, -9)
	puts("put gives a time to live", &old, write(`1`, `{}`, later, none), row(`1`, `{}`, 2, 2, CaseFirst, later), false, 0, -9)
	puts("put that keeps", &ends, keep(write(`12`, `{}`, later, none)), row(`12`, `{"m":1}`, 2, 2, CaseFirst, soon), false, 0, -3)
	puts("put over what has expired", &over, write(`1`, `{}`, 0, none), row(`1`, `{}`, 1, 2, CaseSecond, 0), true, 0, -9)
	puts("put that keeps over what has expired", &over, keep(write(`1`, `{}`, later, none)), row(`1`, `{}`, 1, 2, CaseSecond, later), true, 0, -9)
	puts("put by a schema", &old, by(write(`1`, `{}`, 0, none), 1), row(`1`, `{}`, 2, 2, CaseFirst, 0), false, 0, -9)
	fails("put by no schema where one is active", &old, write(`1`, `{}`, 0, none), first, ss.ErrSchemaChanged)
	all[len(all)-1].Active = 1
	fails("put by a schema that is none", &old, by(write(`1`, `{}`, 0, none), 1), first, ss.ErrSchemaChanged)
	fails("put by an old schema", &old, by(write(`1`, `{}`, 0, none), 1), first, ss.ErrSchemaChanged)
	all[len(all)-1].Active = 2
	fails("a guard before the schema", &old, by(write(`1`, `{}`, 0, ifRevision(9)), 1), first, mismatch(1))

	puts("revision matches", &old, write(`1`, `{}`, 0, ifRevision(1)), row(`1`, `{}`, 2, 2, CaseFirst, 0), false, 0, -9)
	fails("another revision", &old, write(`1`, `{}`, 0, ifRevision(2)), first, mismatch(1))
	fails("revision of none", nil, write(`1`, `{}`, 0, ifRevision(1)), nil, mismatch(0))
	fails("revision of what has expired", &over, write(`1`, `{}`, 0, ifRevision(1)), expired, mismatch(0))
	puts("no record wanted", nil, write(`1`, `{}`, 0, ifRevision(0)), row(`1`, `{}`, 1, 1, CaseSecond, 0), true, 1, 3)
	puts("no record wanted over what has expired", &over, write(`1`, `{}`, 0, ifRevision(0)), row(`1`, `{}`, 1, 2, CaseSecond, 0), true, 0, -9)
	fails("no record wanted where one is", &old, write(`1`, `{}`, 0, ifRevision(0)), first, mismatch(1))

	puts("tag matches", &old, write(`1`, `{}`, 0, ifMatch(1)), row(`1`, `{}`, 2, 2, CaseFirst, 0), false, 0, -9)
	puts("one of the tags matches", &old, write(`1`, `{}`, 0, ifMatch(7, 1)), row(`1`, `{}`, 2, 2, CaseFirst, 0), false, 0, -9)
	fails("another tag", &old, write(`1`, `{}`, 0, ifMatch(2)), first, header(1))
	fails("tags of nobody", &old, write(`1`, `{}`, 0, ifMatch()), first, header(1))
	fails("tag of none", nil, write(`1`, `{}`, 0, ifMatch(1)), nil, header(0))
	fails("tag of what has expired", &over, write(`1`, `{}`, 0, ifMatch(1)), expired, header(0))
	puts("any tag", &old, write(`1`, `{}`, 0, ifAny), row(`1`, `{}`, 2, 2, CaseFirst, 0), false, 0, -9)
	fails("any tag of none", nil, write(`1`, `{}`, 0, ifAny), nil, header(0))
	fails("any tag of what has expired", &over, write(`1`, `{}`, 0, ifAny), expired, header(0))

	puts("not this tag", &old, write(`1`, `{}`, 0, ifNoneMatch(2)), row(`1`, `{}`, 2, 2, CaseFirst, 0), false, 0, -9)
	fails("not this tag, which it is", &old, write(`1`, `{}`, 0, ifNoneMatch(2, 1)), first, header(1))
	puts("no tag", nil, write(`1`, `{}`, 0, ifNone), row(`1`, `{}`, 1, 1, CaseSecond, 0), true, 1, 3)
	puts("no tag over what has expired", &over, write(`1`, `{}`, 0, ifNone), row(`1`, `{}`, 1, 2, CaseSecond, 0), true, 0, -9)
	fails("no tag where one is", &old, write(`1`, `{}`, 0, ifNone), first, header(1))
	fails("a header before the revision", &old, write(`1`, `{}`, 0, ss.Guard{Revision: ss.Some[ss.Revision](9), Match: ss.Tags{Set: true}}), first, header(1))
	fails("the revision beside a header that holds", &old, write(`1`, `{}`, 0, ss.Guard{Revision: ss.Some[ss.Revision](9), Match: ss.Tags{Set: true, Any: true}}), first, mismatch(1))

	deletes := func(name string, f *ss.Op, g ss.Guard, change ss.ChangeOp, existed bool, d ss.Delta) {
		all = append(all, JudgeCase{Name: name, First: f, Second: of(ss.Delete, g), Item: ss.Item{Existed: existed}, Change: change, Delta: d})
	}
	gone := ss.Delta{Keys: -1, Bytes: -12}
	deletes("delete", &old, none, ss.ChangeDelete, true, gone)
	deletes("delete with its revision", &old, ifRevision(1), ss.ChangeDelete, true, gone)
	deletes("delete with its tag", &old, ifMatch(1), ss.ChangeDelete, true, gone)
	deletes("delete where none is", nil, none, "", false, ss.Delta{})
	deletes("delete what has expired", &over, none, ss.ChangeExpire, false, gone)
	fails("delete with another revision", &old, of(ss.Delete, ifRevision(2)), first, mismatch(1))
	fails("delete with another tag", &old, of(ss.Delete, ifMatch(2)), first, header(1))
	fails("delete with a revision where none is", nil, of(ss.Delete, ifRevision(1)), nil, mismatch(0))
	fails("delete of no record where none is", nil, of(ss.Delete, ifRevision(0)), nil, mismatch(0))
	fails("delete of what has expired with its revision", &over, of(ss.Delete, ifRevision(1)), expired, mismatch(0))
	fails("delete of no record where one is", &old, of(ss.Delete, ifRevision(0)), first, mismatch(1))

	checks := func(name string, f *ss.Op, g ss.Guard, left *Row, it ss.Item) {
		all = append(all, JudgeCase{Name: name, First: f, Second: of(ss.Check, g), Item: it, Row: left})
	}
	checks("check a revision", &old, ifRevision(1), first, itemOf(first, false))
	checks("check a tag", &old, ifMatch(1), first, itemOf(first, false))
	checks("check nothing", &old, none, first, itemOf(first, false))
	checks("check that there is none", nil, ifRevision(0), nil, ss.Item{})
	checks("check that there is none where one has expired", &over, ifRevision(0), expired, ss.Item{})
	fails("check another revision", &old, of(ss.Check, ifRevision(2)), first, mismatch(1))
	fails("check a revision of what has expired", &over, of(ss.Check, ifRevision(1)), expired, mismatch(0))
	return all
}

func judgeChecks() []check {
	var checks []check
	for _, c := range JudgeCases() {
		checks = append(checks, check{c.Name, func(t *testing.T, u *user) { judgeCase(t, u, &c) }})
	}
	return checks
}

// judgeCase runs a line of the table on the backend.
func judgeCase(t *testing.T, u *user, c *JudgeCase) {
	u.now = CaseFirst
	var before ss.Counters
	var last ss.Seq
	if c.First != nil {
		before, last = u.apply(*c.First).Counters, 1
	}
	for v := ss.SchemaVersion(1); v <= c.Active; v++ {
		u.activate(c.Second.Namespace, u.register(c.Second.Namespace, `{}`).Version)
	}
	u.now = CaseSecond
	a, err := u.try(c.Second)
	want := error(nil)
	if c.Err != nil {
		want = item(0, c.Err)
	}
	wantError(t, "answer", err, want)
	if err == nil && want == nil {
		equal(t, "item", a.Items[0], c.Item)
		equal(t, "counters", a.Counters, u.audited())
	}
	after := u.audited()
	equal(t, "keys and bytes", ss.Delta{Keys: after.Keys - before.Keys, Bytes: after.Bytes - before.Bytes}, c.Delta)
	var changes []ss.Change
	if c.Change != "" {
		revision := ss.Revision(1)
		if c.Change == ss.ChangePut {
			revision = c.Row.Revision
		}
		changes = append(changes, ss.Change{Seq: last + 1, Op: c.Change, Namespace: c.Second.Namespace, Key: c.Second.Key, Revision: revision, At: CaseSecond})
	}
	equal(t, "changes", u.changes(last), changes)
	if c.Row == nil || c.Row.ExpiresAt.Reached(CaseSecond) {
		u.wantGone("settings", "a")
	}
	if c.Row == nil {
		equal(t, "keys", after.Keys, int64(0))
		return
	}
	// What has expired is still there for who lives before that.
	r := u.at(CaseFirst).get("settings", "a")
	equal(t, "record", Row{r.Value, r.Metadata, r.Revision, r.Seq, r.CreatedAt, r.UpdatedAt, r.ExpiresAt}, *c.Row)
	equal(t, "bytes of the record", r.Bytes(), after.Bytes)
}
