package storetest

import (
	"slices"
	"testing"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
)

// Times of the first operation, and of the second an hour later.
const (
	CaseFirst  ext.Moment = 1_700_000_000_123
	CaseSecond            = CaseFirst + 3_600_000
)

// DecideCase is a row in the table that defines Op.Decide: the effect of an operation at CaseSecond after another at
// CaseFirst on the same key.
type DecideCase struct {
	Name   string
	First  *ext.Op // a put; nil if there is no record
	Active ext.SchemaVersion
	Second ext.Op

	Err    error
	Item   ext.Item
	Change ext.ChangeOp // "" if there is no change
	Delta  ext.Delta
	Row    *Row // the record afterwards; nil if it does not exist
}

// Row is a case's stored record.
type Row struct {
	Value, Metadata                 canonjson.Value
	Revision                        ext.Revision
	Seq                             ext.Seq
	CreatedAt, UpdatedAt, ExpiresAt ext.Moment
}

var (
	caseOld     = caseWrite(`"old"`, `{"m":1}`, 0, ext.Precondition{})
	caseEnds    = caseWrite(`"old"`, `{"m":1}`, CaseSecond+1, ext.Precondition{})
	caseOver    = caseWrite(`"old"`, `{"m":1}`, CaseSecond, ext.Precondition{})
	caseFirst   = &Row{`"old"`, `{"m":1}`, 1, 1, CaseFirst, CaseFirst, 0}
	caseExpired = &Row{`"old"`, `{"m":1}`, 1, 1, CaseFirst, CaseFirst, CaseSecond}
)

func caseOp(kind ext.OpKind, g ext.Precondition) ext.Op {
	return ext.Op{Kind: kind, Namespace: "settings", Key: "a", Precondition: g}
}

func caseWrite(value, metadata canonjson.Value, expires ext.Moment, g ext.Precondition) ext.Op {
	op := caseOp(ext.Put, g)
	op.Value, op.Metadata, op.ExpiresAt = value, metadata, expires
	return op
}

func one(g ext.Precondition) ext.Op { return caseWrite(`1`, `{}`, 0, g) }

func keeping(op ext.Op) ext.Op { op.Keep = true; return op }

func by(op ext.Op, v ext.SchemaVersion) ext.Op { op.Schema = v; return op }

func mismatch(r ext.Revision) error { return &ext.MismatchError{Current: r} }

func headerMismatch(r ext.Revision) error { return &ext.MismatchError{Current: r, Header: true} }

func (r *Row) item(created bool) ext.Item {
	if r == nil || r.ExpiresAt.Reached(CaseSecond) {
		return ext.Item{}
	}
	return ext.Item{Revision: r.Revision, Seq: r.Seq, Created: created, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, ExpiresAt: r.ExpiresAt}
}

func creates(name string, first *ext.Op, op ext.Op, d ext.Delta, expires ext.Moment) DecideCase {
	row := &Row{op.Value, op.Metadata, 1, 1, CaseSecond, CaseSecond, expires}
	if first != nil {
		row.Seq = 2
	}
	return DecideCase{Name: name, First: first, Active: op.Schema, Second: op, Item: row.item(true), Change: ext.ChangePut, Delta: d, Row: row}
}

func updates(name string, first *ext.Op, op ext.Op, metadata canonjson.Value, bytes int64, expires ext.Moment) DecideCase {
	row := &Row{op.Value, metadata, 2, 2, CaseFirst, CaseSecond, expires}
	return DecideCase{Name: name, First: first, Active: op.Schema, Second: op, Item: row.item(false), Change: ext.ChangePut, Delta: ext.Delta{Bytes: bytes}, Row: row}
}

func refuses(name string, first *ext.Op, active ext.SchemaVersion, op ext.Op, err error) DecideCase {
	return DecideCase{Name: name, First: first, Active: active, Second: op, Err: err, Row: left(first)}
}

func left(first *ext.Op) *Row {
	switch first {
	case &caseOld:
		return caseFirst
	case &caseOver:
		return caseExpired
	}
	return nil
}

func deletes(name string, first *ext.Op, g ext.Precondition, change ext.ChangeOp) DecideCase {
	c := DecideCase{Name: name, First: first, Second: caseOp(ext.Delete, g), Item: ext.Item{Existed: change == ext.ChangeDelete}, Change: change}
	if change != "" {
		c.Delta = ext.Delta{Keys: -1, Bytes: -12}
	}
	return c
}

func checks(name string, first *ext.Op, g ext.Precondition) DecideCase {
	return DecideCase{Name: name, First: first, Second: caseOp(ext.Check, g), Item: left(first).item(false), Row: left(first)}
}

func DecideCases() []DecideCase { return slices.Concat(putCases(), preconditionCases(), deleteCases()) }

func putCases() []DecideCase {
	const later = CaseSecond + 3_600_000
	var (
		none  ext.Precondition
		fresh = ext.Delta{Keys: 1, Bytes: 3}
		over  = ext.Delta{Bytes: -9}
	)
	return []DecideCase{
		creates("put new", nil, one(none), fresh, 0),
		creates("put new with a time to live", nil, caseWrite(`1`, `{}`, later, none), fresh, later),
		creates("put new that keeps", nil, keeping(caseWrite(`1`, `{}`, later, none)), fresh, later),
		updates("put over", &caseOld, one(none), `{}`, -9, 0),
		updates("put the same", &caseOld, caseOld, `{"m":1}`, 0, 0),
		updates("put removes the time to live", &caseEnds, one(none), `{}`, -9, 0),
		updates("put sets a time to live", &caseOld, caseWrite(`1`, `{}`, later, none), `{}`, -9, later),
		updates("put that keeps", &caseEnds, keeping(caseWrite(`12`, `{}`, later, none)), `{"m":1}`, -3, CaseSecond+1),
		creates("put over an expired record", &caseOver, one(none), over, 0),
		creates("put that keeps over an expired record", &caseOver, keeping(caseWrite(`1`, `{}`, later, none)), over, later),

		updates("put with a schema", &caseOld, by(one(none), 1), `{}`, -9, 0),
		refuses("put without a schema while one is active", &caseOld, 1, one(none), ext.ErrSchemaChanged),
		refuses("put with a schema that does not exist", &caseOld, 0, by(one(none), 1), ext.ErrSchemaChanged),
		refuses("put with an old schema", &caseOld, 2, by(one(none), 1), ext.ErrSchemaChanged),
		refuses("a precondition before the schema", &caseOld, 0, by(one(ifRevision(9)), 1), mismatch(1)),
	}
}

func preconditionCases() []DecideCase {
	fresh, over := ext.Delta{Keys: 1, Bytes: 3}, ext.Delta{Bytes: -9}
	both := func(g ext.Precondition) ext.Precondition { g.Revision = ext.Some[ext.Revision](9); return g }
	return []DecideCase{
		updates("revision matches", &caseOld, one(ifRevision(1)), `{}`, -9, 0),
		refuses("another revision", &caseOld, 0, one(ifRevision(2)), mismatch(1)),
		refuses("revision of an absent record", nil, 0, one(ifRevision(1)), mismatch(0)),
		refuses("revision of an expired record", &caseOver, 0, one(ifRevision(1)), mismatch(0)),
		creates("no record required", nil, one(ifRevision(0)), fresh, 0),
		creates("no record required, over an expired one", &caseOver, one(ifRevision(0)), over, 0),
		refuses("no record required, but it exists", &caseOld, 0, one(ifRevision(0)), mismatch(1)),

		updates("tag matches", &caseOld, one(ifMatch(1)), `{}`, -9, 0),
		updates("one of the tags matches", &caseOld, one(ifMatch(7, 1)), `{}`, -9, 0),
		refuses("another tag", &caseOld, 0, one(ifMatch(2)), headerMismatch(1)),
		refuses("empty list of tags", &caseOld, 0, one(ifMatch()), headerMismatch(1)),
		refuses("tag of an absent record", nil, 0, one(ifMatch(1)), headerMismatch(0)),
		refuses("tag of an expired record", &caseOver, 0, one(ifMatch(1)), headerMismatch(0)),
		updates("any tag", &caseOld, one(ifAny), `{}`, -9, 0),
		refuses("any tag of an absent record", nil, 0, one(ifAny), headerMismatch(0)),
		refuses("any tag of an expired record", &caseOver, 0, one(ifAny), headerMismatch(0)),

		updates("not this tag", &caseOld, one(ifNoneMatch(2)), `{}`, -9, 0),
		refuses("not this tag, but it matches", &caseOld, 0, one(ifNoneMatch(2, 1)), headerMismatch(1)),
		creates("no tag", nil, one(ifNone), fresh, 0),
		creates("no tag, over an expired record", &caseOver, one(ifNone), over, 0),
		refuses("no tag, but the record exists", &caseOld, 0, one(ifNone), headerMismatch(1)),
		refuses("the header is checked before the revision", &caseOld, 0, one(both(ifMatch())), headerMismatch(1)),
		refuses("the header holds and the revision does not", &caseOld, 0, one(both(ifAny)), mismatch(1)),
	}
}

func deleteCases() []DecideCase {
	var none ext.Precondition
	of := func(g ext.Precondition) ext.Op { return caseOp(ext.Delete, g) }
	return []DecideCase{
		deletes("delete", &caseOld, none, ext.ChangeDelete),
		deletes("delete with its revision", &caseOld, ifRevision(1), ext.ChangeDelete),
		deletes("delete with its tag", &caseOld, ifMatch(1), ext.ChangeDelete),
		deletes("delete an absent record", nil, none, ""),
		deletes("delete an expired record", &caseOver, none, ext.ChangeExpire),
		refuses("delete with another revision", &caseOld, 0, of(ifRevision(2)), mismatch(1)),
		refuses("delete with another tag", &caseOld, 0, of(ifMatch(2)), headerMismatch(1)),
		refuses("delete an absent record with a revision", nil, 0, of(ifRevision(1)), mismatch(0)),
		refuses("delete an absent record with revision 0", nil, 0, of(ifRevision(0)), mismatch(0)),
		refuses("delete an expired record with its revision", &caseOver, 0, of(ifRevision(1)), mismatch(0)),
		refuses("delete an existing record with revision 0", &caseOld, 0, of(ifRevision(0)), mismatch(1)),

		checks("check a revision", &caseOld, ifRevision(1)),
		checks("check a tag", &caseOld, ifMatch(1)),
		checks("check nothing", &caseOld, none),
		checks("check that a record is absent", nil, ifRevision(0)),
		checks("check that an expired record is absent", &caseOver, ifRevision(0)),
		refuses("check another revision", &caseOld, 0, caseOp(ext.Check, ifRevision(2)), mismatch(1)),
		refuses("check a revision of an expired record", &caseOver, 0, caseOp(ext.Check, ifRevision(1)), mismatch(0)),
	}
}

func decideChecks() []check {
	var checks []check
	for _, c := range DecideCases() {
		checks = append(checks, check{c.Name, func(t *testing.T, u *user) { decideCase(t, u, &c) }})
	}
	return checks
}

func decideCase(t *testing.T, u *user, c *DecideCase) {
	u.now = CaseFirst
	var before ext.Counters
	var last ext.Seq
	if c.First != nil {
		u.apply(*c.First)
		before, last = u.stored(), 1
	}
	for v := ext.SchemaVersion(1); v <= c.Active; v++ {
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
	}
	after := u.stored()
	equal(t, "keys and bytes", ext.Delta{Keys: after.Keys - before.Keys, Bytes: after.Bytes - before.Bytes}, c.Delta)
	var changes []ext.Change
	if c.Change != "" {
		revision := ext.Revision(1)
		if c.Change == ext.ChangePut {
			revision = c.Row.Revision
		}
		changes = append(changes, ext.Change{Seq: last + 1, Op: c.Change, Namespace: c.Second.Namespace, Key: c.Second.Key, Revision: revision, At: CaseSecond})
	}
	equal(t, "changes", u.changes(last), changes)
	if c.Row == nil || c.Row.ExpiresAt.Reached(CaseSecond) {
		u.wantGone("settings", "a")
	}
	if c.Row == nil {
		equal(t, "keys", after.Keys, int64(0))
		return
	}
	r := u.at(CaseFirst).get("settings", "a")
	equal(t, "record", Row{r.Value, r.Metadata, r.Revision, r.Seq, r.CreatedAt, r.UpdatedAt, r.ExpiresAt}, *c.Row)
	equal(t, "bytes of the record", r.Bytes(), after.Bytes)
}
