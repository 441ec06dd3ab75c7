package storetest

import ss "holdfast/internal/syncstorage"

// These are the times of the first write, and of the second a minute later.
const (
	CaseFirst  ss.Timestamp = 1_700_000_000_120
	CaseSecond ss.Timestamp = CaseFirst + 60_000
)

// MergeCase is a row in the table that defines Merge: a record and the result of an update at CaseSecond.
type MergeCase struct {
	Name   string
	First  *ss.Update
	Second ss.Update
	Mode   ss.MergeMode
	Want   ss.BSO
	Delta  ss.Delta
}

func MergeCases() []MergeCase {
	var (
		none    ss.Optional[int64]
		five    = ss.Some[int64](5)
		nine    = ss.Some[int64](-9)
		long    = ss.Some[int64](3600)
		minute  = ss.Some[int64](60)
		zero    = ss.Some[int64](0)
		full    = &ss.Update{ID: "a", SortIndex: five, Payload: text("old"), TTL: long}
		expires = CaseFirst + 3_600_000
		renewed = CaseSecond + 3_600_000
		expired = &ss.Update{ID: "a", SortIndex: five, Payload: text("old"), TTL: minute}
	)
	b := func(index ss.Optional[int64], payload string, modified, expiry ss.Timestamp) ss.BSO {
		return ss.BSO{ID: "a", SortIndex: index, Payload: []byte(payload), Modified: modified, Expiry: expiry}
	}
	one := func(bytes int64) ss.Delta { return ss.Delta{Records: 1, Bytes: bytes} }
	bytes := func(n int64) ss.Delta { return ss.Delta{Bytes: n} }
	return []MergeCase{
		{"new with everything", nil, ss.Update{ID: "a", SortIndex: nine, Payload: text("new"), TTL: long}, ss.Direct,
			b(nine, "new", CaseSecond, renewed), one(3)},
		{"new with nothing", nil, ss.Update{ID: "a"}, ss.Direct, b(none, "", CaseSecond, 0), one(0)},
		{"new with only a ttl", nil, ss.Update{ID: "a", TTL: long}, ss.Direct, b(none, "", CaseSecond, renewed), one(0)},
		{"new with only a sortindex", nil, ss.Update{ID: "a", SortIndex: zero}, ss.Direct, b(zero, "", CaseSecond, 0), one(0)},
		{"new from a batch", nil, ss.Update{ID: "a", Payload: text("new"), TTL: long}, ss.FromBatch,
			b(none, "new", CaseSecond, renewed), one(3)},

		{"payload keeps the rest", full, bso("a", "longer"), ss.Direct, b(five, "longer", CaseSecond, expires), bytes(3)},
		{"the same payload is a write", full, bso("a", "old"), ss.Direct, b(five, "old", CaseSecond, expires), bytes(0)},
		{"empty payload replaces", full, bso("a", ""), ss.Direct, b(five, "", CaseSecond, expires), bytes(-3)},
		{"sortindex keeps the rest", full, ss.Update{ID: "a", SortIndex: nine}, ss.Direct, b(nine, "old", CaseSecond, expires), bytes(0)},
		{"ttl keeps the stamp", full, ss.Update{ID: "a", TTL: long}, ss.Direct, b(five, "old", CaseFirst, renewed), bytes(0)},
		{"ttl and payload move the stamp", full, expiring("a", "new", 3600), ss.Direct, b(five, "new", CaseSecond, renewed), bytes(0)},
		{"nothing keeps everything", full, ss.Update{ID: "a"}, ss.Direct, b(five, "old", CaseFirst, expires), bytes(0)},
		{"a ttl for one that had none", &ss.Update{ID: "a", Payload: text("old")}, ss.Update{ID: "a", TTL: long}, ss.Direct,
			b(none, "old", CaseFirst, renewed), bytes(0)},

		{"batch payload keeps the rest", full, bso("a", "longer"), ss.FromBatch, b(five, "longer", CaseSecond, expires), bytes(3)},
		{"batch ttl moves the stamp", full, ss.Update{ID: "a", TTL: long}, ss.FromBatch, b(five, "old", CaseSecond, renewed), bytes(0)},
		{"batch nothing moves the stamp", full, ss.Update{ID: "a"}, ss.FromBatch, b(five, "old", CaseSecond, expires), bytes(0)},
		{"batch sortindex keeps the rest", full, ss.Update{ID: "a", SortIndex: nine}, ss.FromBatch, b(nine, "old", CaseSecond, expires), bytes(0)},

		{"over an expired one", expired, bso("a", "n"), ss.Direct, b(none, "n", CaseSecond, 0), bytes(-2)},
		{"sortindex over an expired one", expired, ss.Update{ID: "a", SortIndex: nine}, ss.Direct, b(nine, "", CaseSecond, 0), bytes(-3)},
		{"ttl over an expired one", expired, ss.Update{ID: "a", TTL: long}, ss.Direct, b(none, "", CaseSecond, renewed), bytes(-3)},
		{"nothing over an expired one", expired, ss.Update{ID: "a"}, ss.Direct, b(none, "", CaseSecond, 0), bytes(-3)},
		{"batch over an expired one", expired, ss.Update{ID: "a", SortIndex: nine}, ss.FromBatch, b(nine, "", CaseSecond, 0), bytes(-3)},
	}
}

func text(s string) ss.Optional[[]byte] { return ss.Some([]byte(s)) }

// StageCase is a row in the table that defines Stage: two appends with the same ID.
type StageCase struct {
	Name                string
	First, Second, Want ss.Update
}

func StageCases() []StageCase {
	full := ss.Update{ID: "a", SortIndex: ss.Some[int64](5), Payload: text("old"), TTL: ss.Some[int64](3600)}
	with := func(change func(*ss.Update)) ss.Update {
		u := full
		change(&u)
		return u
	}
	return []StageCase{
		{"nothing over everything", full, ss.Update{ID: "a"}, full},
		{"everything over nothing", ss.Update{ID: "a"}, full, full},
		{"nothing over nothing", ss.Update{ID: "a"}, ss.Update{ID: "a"}, ss.Update{ID: "a"}},
		{"payload", full, bso("a", "new"), with(func(u *ss.Update) { u.Payload = text("new") })},
		{"empty payload", full, bso("a", ""), with(func(u *ss.Update) { u.Payload = text("") })},
		{"sortindex", full, ss.Update{ID: "a", SortIndex: ss.Some[int64](0)}, with(func(u *ss.Update) { u.SortIndex = ss.Some[int64](0) })},
		{"ttl", full, ss.Update{ID: "a", TTL: ss.Some[int64](7)}, with(func(u *ss.Update) { u.TTL = ss.Some[int64](7) })},
		{"payload after a sortindex", ss.Update{ID: "a", SortIndex: ss.Some[int64](5)}, bso("a", "new"),
			ss.Update{ID: "a", SortIndex: ss.Some[int64](5), Payload: text("new")}},
	}
}

// PreconditionCase is a row in the table that defines Precondition.Check.
type PreconditionCase struct {
	Name     string
	If       ss.Precondition
	Modified ss.Timestamp
	Want     error
}

func PreconditionCases() []PreconditionCase {
	changed := &ss.PreconditionError{Modified: CaseFirst}
	unchanged := &ss.PreconditionError{Modified: CaseFirst, NotModified: true}
	absent := &ss.PreconditionError{NotModified: true}
	return []PreconditionCase{
		{"none", ss.Precondition{}, CaseFirst, nil},
		{"none, absent", ss.Precondition{}, 0, nil},

		{"unmodified since its stamp", ifUnmodifiedSince(CaseFirst), CaseFirst, nil},
		{"unmodified since later", ifUnmodifiedSince(CaseFirst + ss.Tick), CaseFirst, nil},
		{"unmodified since a tick before", ifUnmodifiedSince(CaseFirst - ss.Tick), CaseFirst, changed},
		{"unmodified since never", ifUnmodifiedSince(0), CaseFirst, changed},
		{"unmodified since the end of time", ifUnmodifiedSince(ss.MaxTimestamp), CaseFirst, nil},
		{"unmodified since never, absent", ifUnmodifiedSince(0), 0, nil},
		{"unmodified since some time, absent", ifUnmodifiedSince(CaseFirst), 0, nil},

		{"modified since its stamp", ifModifiedSince(CaseFirst), CaseFirst, unchanged},
		{"modified since later", ifModifiedSince(CaseFirst + ss.Tick), CaseFirst, unchanged},
		{"modified since a tick before", ifModifiedSince(CaseFirst - ss.Tick), CaseFirst, nil},
		{"modified since never", ifModifiedSince(0), CaseFirst, nil},
		{"modified since the end of time", ifModifiedSince(ss.MaxTimestamp), CaseFirst, unchanged},
		{"modified since never, absent", ifModifiedSince(0), 0, absent},
		{"modified since some time, absent", ifModifiedSince(CaseFirst), 0, absent},
	}
}

// QuotaCase is a row in the table that defines Quota.Exceeded, in bytes.
type QuotaCase struct {
	Name             string
	Collection, User int64
	Others           int64
	Before, After    int64
	Exceeded         bool
}

func QuotaCases() []QuotaCase {
	return []QuotaCase{
		{"no limit", 0, 0, 0, 0, 1 << 16, false},

		{"user: from nothing to the limit", 0, 100, 0, 0, 100, false},
		{"user: from nothing over it", 0, 100, 0, 0, 101, true},
		{"user: from the limit over it", 0, 100, 0, 100, 101, true},
		{"user: over it and growing", 0, 100, 0, 150, 151, true},
		{"user: over it and the same", 0, 100, 0, 150, 150, false},
		{"user: over it and shrinking", 0, 100, 0, 150, 149, false},
		{"user: back to the limit", 0, 100, 0, 150, 100, false},
		{"user: under it and shrinking", 0, 100, 0, 50, 0, false},
		{"user: to the limit with other collections", 0, 100, 60, 0, 40, false},
		{"user: over it with other collections", 0, 100, 60, 0, 41, true},
		{"user: over it by other collections", 0, 100, 150, 20, 20, false},

		{"collection: to the limit", 100, 0, 0, 0, 100, false},
		{"collection: over it", 100, 0, 0, 99, 101, true},
		{"collection: over it and growing", 100, 0, 0, 150, 151, true},
		{"collection: over it and shrinking", 100, 0, 0, 150, 149, false},
		{"collection: others do not count", 100, 0, 500, 0, 100, false},
		{"collection: over it with others", 100, 0, 500, 0, 101, true},

		{"both: to both limits", 50, 100, 50, 0, 50, false},
		{"both: over that of the collection", 50, 100, 10, 0, 51, true},
		{"both: over that of the user", 50, 100, 60, 0, 41, true},
		{"both: shrinking, and over both", 50, 100, 60, 80, 79, false},
		{"both: growing in the collection's limit, over the user's", 50, 100, 200, 10, 11, true},
		{"both: growing in the user's limit, over the collection's", 50, 1000, 200, 60, 61, true},
	}
}

func (c QuotaCase) Quota(enforce bool) ss.Quota {
	return ss.Quota{Collection: c.Collection, User: c.User, Enforce: enforce}
}

func (c QuotaCase) Used(bytes int64) ss.Used {
	return ss.Used{Collection: bytes, User: c.Others + bytes}
}
