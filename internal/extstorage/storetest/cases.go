package storetest

import (
	"slices"
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

// Operations of the cases. The first is a put of 5 and 7 bytes: one that stays,
// one that ends a millisecond after the second operation, and one that has ended
// at it, to the millisecond.
var (
	caseOld     = caseWrite(`"old"`, `{"m":1}`, 0, ss.Guard{})
	caseEnds    = caseWrite(`"old"`, `{"m":1}`, CaseSecond+1, ss.Guard{})
	caseOver    = caseWrite(`"old"`, `{"m":1}`, CaseSecond, ss.Guard{})
	caseFirst   = &Row{`"old"`, `{"m":1}`, 1, 1, CaseFirst, CaseFirst, 0}
	caseExpired = &Row{`"old"`, `{"m":1}`, 1, 1, CaseFirst, CaseFirst, CaseSecond}
)

func caseOp(kind ss.OpKind, g ss.Guard) ss.Op {
	return ss.Op{Kind: kind, Namespace: "settings", Key: "a", Guard: g}
}

func caseWrite(value, metadata ss.Value, expires ss.Moment, g ss.Guard) ss.Op {
	op := caseOp(ss.Put, g)
	op.Value, op.Metadata, op.ExpiresAt = value, metadata, expires
	return op
}

// one is a put of 3 bytes.
func one(g ss.Guard) ss.Op { return caseWrite(`1`, `{}`, 0, g) }

func keeping(op ss.Op) ss.Op { op.Keep = true; return op }

func by(op ss.Op, v ss.SchemaVersion) ss.Op { op.Schema = v; return op }

func mismatch(r ss.Revision) error { return &ss.MismatchError{Current: r} }

func headerMismatch(r ss.Revision) error { return &ss.MismatchError{Current: r, Header: true} }

func (r *Row) item(created bool) ss.Item {
	if r == nil || r.ExpiresAt.Reached(CaseSecond) {
		return ss.Item{}
	}
	return ss.Item{Revision: r.Revision, Seq: r.Seq, Created: created, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, ExpiresAt: r.ExpiresAt}
}

// creates, updates, refuses, deletes and checks are lines of the table. What a
// put leaves is written at CaseSecond.

func creates(name string, first *ss.Op, op ss.Op, d ss.Delta, expires ss.Moment) JudgeCase {
	row := &Row{op.Value, op.Metadata, 1, 1, CaseSecond, CaseSecond, expires}
	if first != nil {
		row.Seq = 2
	}
	return JudgeCase{Name: name, First: first, Active: op.Schema, Second: op, Item: row.item(true), Change: ss.ChangePut, Delta: d, Row: row}
}

func updates(name string, first *ss.Op, op ss.Op, metadata ss.Value, bytes int64, expires ss.Moment) JudgeCase {
	row := &Row{op.Value, metadata, 2, 2, CaseFirst, CaseSecond, expires}
	return JudgeCase{Name: name, First: first, Active: op.Schema, Second: op, Item: row.item(false), Change: ss.ChangePut, Delta: ss.Delta{Bytes: bytes}, Row: row}
}

func refuses(name string, first *ss.Op, active ss.SchemaVersion, op ss.Op, err error) JudgeCase {
	return JudgeCase{Name: name, First: first, Active: active, Second: op, Err: err, Row: left(first)}
}

// left is the row that the first operation leaves.
func left(first *ss.Op) *Row {
	switch first {
	case &caseOld:
		return caseFirst
	case &caseOver:
		return caseExpired
	}
	return nil
}

func deletes(name string, first *ss.Op, g ss.Guard, change ss.ChangeOp) JudgeCase {
	c := JudgeCase{Name: name, First: first, Second: caseOp(ss.Delete, g), Item: ss.Item{Existed: change == ss.ChangeDelete}, Change: change}
	if change != "" {
		c.Delta = ss.Delta{Keys: -1, Bytes: -12}
	}
	return c
}

func checks(name string, first *ss.Op, g ss.Guard) JudgeCase {
	return JudgeCase{Name: name, First: first, Second: caseOp(ss.Check, g), Item: left(first).item(false), Row: left(first)}
}

// JudgeCases is the table.
func JudgeCases() []JudgeCase { return slices.Concat(putCases(), guardCases(), deleteCases()) }

func putCases() []JudgeCase {
	const later = CaseSecond + 3_600_000
	var (
		none  ss.Guard
		fresh = ss.Delta{Keys: 1, Bytes: 3}
		over  = ss.Delta{Bytes: -9}
	)
	return []JudgeCase{
		creates("put new", nil, one(none), fresh, 0),
		creates("put new with a time to live", nil, caseWrite(`1`, `{}`, later, none), fresh, later),
		creates("put new that keeps", nil, keeping(caseWrite(`1`, `{}`, later, none)), fresh, later),
		updates("put over", &caseOld, one(none), `{}`, -9, 0),
		updates("put the same", &caseOld, caseOld, `{"m":1}`, 0, 0),
		updates("put takes the time to live away", &caseEnds, one(none), `{}`, -9, 0),
		updates("put gives a time to live", &caseOld, caseWrite(`1`, `{}`, later, none), `{}`, -9, later),
		updates("put that keeps", &caseEnds, keeping(caseWrite(`12`, `{}`, later, none)), `{"m":1}`, -3, CaseSecond+1),
		creates("put over what has expired", &caseOver, one(none), over, 0),
		creates("put that keeps over what has expired", &caseOver, keeping(caseWrite(`1`, `{}`, later, none)), over, later),

		updates("put by a schema", &caseOld, by(one(none), 1), `{}`, -9, 0),
		refuses("put by no schema where one is active", &caseOld, 1, one(none), ss.ErrSchemaChanged),
		refuses("put by a schema that is none", &caseOld, 0, by(one(none), 1), ss.ErrSchemaChanged),
		refuses("put by an old schema", &caseOld, 2, by(one(none), 1), ss.ErrSchemaChanged),
		refuses("a guard before the schema", &caseOld, 0, by(one(ifRevision(9)), 1), mismatch(1)),
	}
}

func guardCases() []JudgeCase {
	fresh, over := ss.Delta{Keys: 1, Bytes: 3}, ss.Delta{Bytes: -9}
	both := func(g ss.Guard) ss.Guard { g.Revision = ss.Some[ss.Revision](9); return g }
	return []JudgeCase{
		updates("revision matches", &caseOld, one(ifRevision(1)), `{}`, -9, 0),
		refuses("another revision", &caseOld, 0, one(ifRevision(2)), mismatch(1)),
		refuses("revision of none", nil, 0, one(ifRevision(1)), mismatch(0)),
		refuses("revision of what has expired", &caseOver, 0, one(ifRevision(1)), mismatch(0)),
		creates("no record wanted", nil, one(ifRevision(0)), fresh, 0),
		creates("no record wanted over what has expired", &caseOver, one(ifRevision(0)), over, 0),
		refuses("no record wanted where one is", &caseOld, 0, one(ifRevision(0)), mismatch(1)),

		updates("tag matches", &caseOld, one(ifMatch(1)), `{}`, -9, 0),
		updates("one of the tags matches", &caseOld, one(ifMatch(7, 1)), `{}`, -9, 0),
		refuses("another tag", &caseOld, 0, one(ifMatch(2)), headerMismatch(1)),
		refuses("tags of nobody", &caseOld, 0, one(ifMatch()), headerMismatch(1)),
		refuses("tag of none", nil, 0, one(ifMatch(1)), headerMismatch(0)),
		refuses("tag of what has expired", &caseOver, 0, one(ifMatch(1)), headerMismatch(0)),
		updates("any tag", &caseOld, one(ifAny), `{}`, -9, 0),
		refuses("any tag of none", nil, 0, one(ifAny), headerMismatch(0)),
		refuses("any tag of what has expired", &caseOver, 0, one(ifAny), headerMismatch(0)),

		updates("not this tag", &caseOld, one(ifNoneMatch(2)), `{}`, -9, 0),
		refuses("not this tag, which it is", &caseOld, 0, one(ifNoneMatch(2, 1)), headerMismatch(1)),
		creates("no tag", nil, one(ifNone), fresh, 0),
		creates("no tag over what has expired", &caseOver, one(ifNone), over, 0),
		refuses("no tag where one is", &caseOld, 0, one(ifNone), headerMismatch(1)),
		refuses("a header before the revision", &caseOld, 0, one(both(ifMatch())), headerMismatch(1)),
		refuses("the revision beside a header that holds", &caseOld, 0, one(both(ifAny)), mismatch(1)),
	}
}

func deleteCases() []JudgeCase {
	var none ss.Guard
	of := func(g ss.Guard) ss.Op { return caseOp(ss.Delete, g) }
	return []JudgeCase{
		deletes("delete", &caseOld, none, ss.ChangeDelete),
		deletes("delete with its revision", &caseOld, ifRevision(1), ss.ChangeDelete),
		deletes("delete with its tag", &caseOld, ifMatch(1), ss.ChangeDelete),
		deletes("delete where none is", nil, none, ""),
		deletes("delete what has expired", &caseOver, none, ss.ChangeExpire),
		refuses("delete with another revision", &caseOld, 0, of(ifRevision(2)), mismatch(1)),
		refuses("delete with another tag", &caseOld, 0, of(ifMatch(2)), headerMismatch(1)),
		refuses("delete with a revision where none is", nil, 0, of(ifRevision(1)), mismatch(0)),
		refuses("delete of no record where none is", nil, 0, of(ifRevision(0)), mismatch(0)),
		refuses("delete of what has expired with its revision", &caseOver, 0, of(ifRevision(1)), mismatch(0)),
		refuses("delete of no record where one is", &caseOld, 0, of(ifRevision(0)), mismatch(1)),

		checks("check a revision", &caseOld, ifRevision(1)),
		checks("check a tag", &caseOld, ifMatch(1)),
		checks("check nothing", &caseOld, none),
		checks("check that there is none", nil, ifRevision(0)),
		checks("check that there is none where one has expired", &caseOver, ifRevision(0)),
		refuses("check another revision", &caseOld, 0, caseOp(ss.Check, ifRevision(2)), mismatch(1)),
		refuses("check a revision of what has expired", &caseOver, 0, caseOp(ss.Check, ifRevision(1)), mismatch(0)),
	}
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
