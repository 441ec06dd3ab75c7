package storetest

import (
	"slices"
	"time"

	ts "holdfast/internal/tokenserver"
)

// Case is a row in the table that defines tokenserver.Decide.
type Case struct {
	Name   string
	State  ts.AccountState
	SignIn ts.SignIn

	Refusal *ts.Refusal // nil if accepted
	Plan    ts.Plan
}

const (
	caseNow  = 100_000
	caseNode = "https://node.example"
)

func Cases() []Case {
	return slices.Concat(casesOfNewcomers(), casesOfProgress(), casesOfRefusal(), casesOfOrder(), casesOfPlace(), casesOfRetired(), casesOfFuture())
}

func row(generation int64, state string, keys int64) ts.User {
	u := ts.User{Generation: generation, ClientState: state, CreatedAt: 1000, Node: caseNode}
	if keys >= 0 {
		u.KeysChangedAt = ts.Mark{Value: keys, Known: true}
	}
	return u
}

func at(u ts.User, created, replaced int64) ts.User {
	u.CreatedAt, u.Replaced, u.ReplacedAt = created, replaced > 0, replaced
	return u
}

func astray(u ts.User) ts.User {
	u.Node = ""
	return u
}

func made(u ts.User) ts.User { return at(u, caseNow, 0) }

func stateOf(users ...ts.User) ts.AccountState { return ts.AccountState{Users: users} }

func signIn(generation int64, state string, keys int64) ts.SignIn {
	return ts.SignIn{
		Generation: ts.At(generation), Keys: ts.KeyID{ChangedAt: ts.At(keys), ClientState: state}, Now: time.UnixMilli(caseNow),
		AllowNew: true, ReleaseRate: 0.1,
	}
}

func closed(s ts.SignIn) ts.SignIn {
	s.AllowNew = false
	return s
}

func casesOfNewcomers() []Case {
	new7 := ts.Plan{Op: ts.Insert, Allocate: true, User: astray(made(row(7, "aa", 5)))}
	return []Case{
		{Name: "new", SignIn: signIn(7, "aa", 5), Plan: new7},
		{Name: "new, without anything", SignIn: signIn(0, "", 0),
			Plan: ts.Plan{Op: ts.Insert, Allocate: true, User: astray(made(row(0, "", -1)))}},
		{Name: "new, keys newer than the generation", SignIn: signIn(7, "aa", 9),
			Plan: ts.Plan{Op: ts.Insert, Allocate: true, User: astray(made(row(7, "aa", 9)))}},
		{Name: "new, on the allow list", State: ts.AccountState{Access: ts.Allowed}, SignIn: closed(signIn(7, "aa", 5)), Plan: new7},
		{Name: "new, closed", SignIn: closed(signIn(7, "aa", 5)), Refusal: &ts.Refusal{Reason: ts.NotAdmitted}},
		{Name: "new, on the deny list", State: ts.AccountState{Access: ts.Denied}, SignIn: signIn(7, "aa", 5),
			Refusal: &ts.Refusal{Reason: ts.NotAdmitted}},
		{Name: "known, closed", State: stateOf(row(7, "aa", 5)), SignIn: closed(signIn(7, "aa", 5)),
			Plan: ts.Plan{User: row(7, "aa", 5)}},
		{Name: "known, on the deny list", State: ts.AccountState{Access: ts.Denied, Users: []ts.User{row(7, "aa", 5)}},
			SignIn: signIn(7, "aa", 5), Refusal: &ts.Refusal{Reason: ts.NotAdmitted}},
	}
}

func casesOfProgress() []Case {
	is := stateOf(row(7, "aa", 5))
	return []Case{
		{Name: "nothing new", State: is, SignIn: signIn(7, "aa", 5), Plan: ts.Plan{User: row(7, "aa", 5)}},
		{Name: "no generation", State: is, SignIn: signIn(0, "aa", 5), Plan: ts.Plan{User: row(7, "aa", 5)}},
		{Name: "generation grows", State: is, SignIn: signIn(8, "aa", 5), Plan: ts.Plan{Op: ts.Update, User: row(8, "aa", 5)}},
		{Name: "keys grow with the generation", State: is, SignIn: signIn(8, "aa", 8), Plan: ts.Plan{Op: ts.Update, User: row(8, "aa", 8)}},
		{Name: "keys grow to the generation", State: is, SignIn: signIn(7, "aa", 7), Plan: ts.Plan{Op: ts.Update, User: row(7, "aa", 7)}},
		{Name: "keys become known", State: stateOf(row(7, "aa", -1)), SignIn: signIn(7, "aa", 9),
			Plan: ts.Plan{Op: ts.Update, User: row(7, "aa", 9)}},
		{Name: "keys stay unknown", State: stateOf(row(7, "aa", -1)), SignIn: signIn(7, "aa", 0), Plan: ts.Plan{User: row(7, "aa", -1)}},
		{Name: "keys stay 0", State: stateOf(row(7, "aa", 0)), SignIn: signIn(7, "aa", 0), Plan: ts.Plan{User: row(7, "aa", 0)}},
		{Name: "no generation, keys newer than everything", State: is, SignIn: signIn(0, "aa", 9),
			Plan: ts.Plan{Op: ts.Update, User: row(9, "aa", 9)}},
		{Name: "no generation, keys newer than the keys", State: is, SignIn: signIn(0, "aa", 6),
			Plan: ts.Plan{Op: ts.Update, User: row(7, "aa", 6)}},
		{Name: "still no client state", State: stateOf(row(7, "", 5)), SignIn: signIn(7, "", 5), Plan: ts.Plan{User: row(7, "", 5)}},
		{Name: "a first client state", State: stateOf(row(7, "", 5)), SignIn: signIn(8, "aa", 8),
			Plan: ts.Plan{Op: ts.Insert, Replace: true, User: made(row(8, "aa", 8))}},
		{Name: "new keys", State: is, SignIn: signIn(8, "bb", 8), Plan: ts.Plan{Op: ts.Insert, Replace: true, User: made(row(8, "bb", 8))}},
		{Name: "new keys, no generation", State: is, SignIn: signIn(0, "bb", 9),
			Plan: ts.Plan{Op: ts.Insert, Replace: true, User: made(row(9, "bb", 9))}},
		{Name: "new keys of unknown time", State: stateOf(row(7, "aa", -1)), SignIn: signIn(8, "bb", 0),
			Plan: ts.Plan{Op: ts.Insert, Replace: true, User: made(row(8, "bb", -1))}},
		{Name: "new keys, the clock stepped back", State: stateOf(at(row(7, "aa", 5), 2*caseNow, 0)), SignIn: signIn(8, "bb", 8),
			Plan: ts.Plan{Op: ts.Insert, Replace: true, User: at(row(8, "bb", 8), 2*caseNow+1, 0)}},
		{Name: "new keys again", State: stateOf(at(row(8, "bb", 8), 2000, 0), at(row(7, "aa", 5), 1000, 2000)), SignIn: signIn(9, "cc", 9),
			Plan: ts.Plan{Op: ts.Insert, Replace: true, User: made(row(9, "cc", 9))}},
	}
}

func casesOfRefusal() []Case {
	is := stateOf(row(7, "aa", 5))
	twice := stateOf(at(row(8, "bb", 8), 2000, 0), at(row(7, "aa", 5), 1000, 2000))
	state := func(detail string) *ts.Refusal { return &ts.Refusal{Reason: ts.BadClientState, Detail: detail} }
	return []Case{
		{Name: "keys grow beyond the generation", State: is, SignIn: signIn(8, "aa", 9), Refusal: &ts.Refusal{Reason: ts.BadKeysChangedAt}},
		{Name: "empty client state", State: is, SignIn: signIn(8, "", 8), Refusal: state("empty string")},
		{Name: "stale client state", State: twice, SignIn: signIn(9, "aa", 9), Refusal: state("stale value")},
		{Name: "new client state, same generation", State: is, SignIn: signIn(7, "bb", 7), Refusal: state("new value with no generation change")},
		{Name: "new client state, older generation", State: is, SignIn: signIn(6, "bb", 6), Refusal: state("new value with no generation change")},
		{Name: "new client state, same keys", State: is, SignIn: signIn(8, "bb", 5), Refusal: state("new value with no keys_changed_at change")},
		{Name: "new client state, older keys", State: is, SignIn: signIn(8, "bb", 4), Refusal: state("new value with no keys_changed_at change")},
		{Name: "new client state, no generation, same keys", State: is, SignIn: signIn(0, "bb", 5), Refusal: state("new value with no keys_changed_at change")},
		{Name: "new client state, no time of keys", State: is, SignIn: signIn(8, "bb", 0), Refusal: &ts.Refusal{Reason: ts.BadKeysChangedAt}},
		{Name: "older generation", State: is, SignIn: signIn(6, "aa", 5), Refusal: &ts.Refusal{Reason: ts.BadGeneration}},
		{Name: "older keys", State: is, SignIn: signIn(7, "aa", 4), Refusal: &ts.Refusal{Reason: ts.BadKeysChangedAt}},
		{Name: "no time of keys", State: is, SignIn: signIn(7, "aa", 0), Refusal: &ts.Refusal{Reason: ts.BadKeysChangedAt}},
	}
}

func casesOfOrder() []Case {
	is := stateOf(row(7, "aa", 5))
	twice := stateOf(at(row(8, "bb", 8), 2000, 0), at(row(7, "aa", 5), 1000, 2000))
	state := func(detail string) *ts.Refusal { return &ts.Refusal{Reason: ts.BadClientState, Detail: detail} }
	return []Case{
		{Name: "keys beyond the generation, and empty state", State: is, SignIn: signIn(8, "", 9), Refusal: &ts.Refusal{Reason: ts.BadKeysChangedAt}},
		{Name: "keys beyond an older generation, and stale state", State: twice, SignIn: signIn(6, "aa", 9), Refusal: &ts.Refusal{Reason: ts.BadKeysChangedAt}},
		{Name: "empty state that is stale, and no generation change",
			State: stateOf(at(row(8, "bb", 8), 2000, 0), at(row(7, "", 5), 1000, 2000)), SignIn: signIn(8, "", 8), Refusal: state("empty string")},
		{Name: "stale state, and older generation and keys", State: twice, SignIn: signIn(7, "aa", 5), Refusal: state("stale value")},
		{Name: "no generation change, and no keys change", State: is, SignIn: signIn(7, "bb", 5), Refusal: state("new value with no generation change")},
		{Name: "older generation, and older keys", State: is, SignIn: signIn(6, "aa", 4), Refusal: &ts.Refusal{Reason: ts.BadGeneration}},
		{Name: "older generation, and no time of keys", State: is, SignIn: signIn(6, "aa", 0), Refusal: &ts.Refusal{Reason: ts.BadGeneration}},
	}
}

func casesOfPlace() []Case {
	return []Case{
		{Name: "replaced without a successor", State: stateOf(at(row(7, "aa", 5), 1000, 2000)), SignIn: signIn(7, "aa", 5),
			Plan: ts.Plan{Op: ts.Insert, Allocate: true, User: made(row(7, "aa", 5))}},
		{Name: "replaced, and new keys", State: stateOf(at(row(7, "aa", 5), 1000, 2000)), SignIn: signIn(8, "bb", 8),
			Plan: ts.Plan{Op: ts.Insert, Allocate: true, User: made(row(8, "bb", 8))}},
		{Name: "replaced, the rules hold", State: stateOf(at(row(7, "aa", 5), 1000, 2000)), SignIn: signIn(6, "aa", 5),
			Refusal: &ts.Refusal{Reason: ts.BadGeneration}},
		{Name: "replaced, closed", State: stateOf(at(row(7, "aa", 5), 1000, 2000)), SignIn: closed(signIn(7, "aa", 5)),
			Plan: ts.Plan{Op: ts.Insert, Allocate: true, User: made(row(7, "aa", 5))}},
		{Name: "the node is gone", State: stateOf(astray(row(7, "aa", 5))), SignIn: signIn(8, "aa", 5),
			Plan: ts.Plan{Op: ts.Insert, Allocate: true, Replace: true, User: astray(made(row(8, "aa", 5)))}},
		{Name: "an older row was left", State: stateOf(at(row(7, "bb", 5), 2000, 0), at(row(6, "aa", 4), 1000, 0)), SignIn: signIn(7, "bb", 5),
			Plan: ts.Plan{Replace: true, User: at(row(7, "bb", 5), 2000, 0)}},
		{Name: "the greatest generation counts, not the newest row",
			State: stateOf(at(row(6, "aa", 4), 2000, 0), at(row(7, "bb", 5), 1000, 0)), SignIn: signIn(7, "bb", 5),
			Plan: ts.Plan{Replace: true, User: at(row(7, "bb", 5), 1000, 0)}},
		{Name: "of one generation the newest row counts",
			State: stateOf(at(row(7, "bb", 5), 2000, 0), at(row(7, "aa", 5), 1000, 2000)), SignIn: signIn(7, "bb", 5),
			Plan: ts.Plan{User: at(row(7, "bb", 5), 2000, 0)}},
		{Name: "older rows of the same state are not stale",
			State: stateOf(at(row(8, "aa", 8), 2000, 0), at(row(7, "aa", 5), 1000, 2000)), SignIn: signIn(8, "aa", 8),
			Plan: ts.Plan{User: at(row(8, "aa", 8), 2000, 0)}},
	}
}

func casesOfRetired() []Case {
	gone := stateOf(at(row(ts.Retired, "aa", 5), 1000, 2000))
	return []Case{
		{Name: "retired", State: gone, SignIn: signIn(8, "aa", 5), Refusal: &ts.Refusal{Reason: ts.BadGeneration}},
		{Name: "retired, no generation", State: gone, SignIn: signIn(0, "aa", 5), Refusal: &ts.Refusal{Reason: ts.BadGeneration}},
		{Name: "retired, new keys", State: gone, SignIn: signIn(8, "bb", 8), Refusal: &ts.Refusal{Reason: ts.BadGeneration}},
		{Name: "retired, of that very generation", State: gone, SignIn: signIn(ts.Retired, "aa", 5),
			Plan: ts.Plan{User: at(row(ts.Retired, "aa", 5), 1000, 2000)}},
		{Name: "retired, node gone", State: stateOf(astray(at(row(ts.Retired, "aa", 5), 1000, 2000))), SignIn: signIn(8, "aa", 5),
			Refusal: &ts.Refusal{Reason: ts.BadGeneration}},
	}
}

func casesOfFuture() []Case {
	const day, far = caseNow + 24*3600*1000, 1 << 60
	is := stateOf(row(7, "aa", 5))
	tooLate := &ts.Refusal{Reason: ts.BadKeysChangedAt}
	return []Case{
		{Name: "new, a generation a day ahead", SignIn: signIn(day, "aa", 5),
			Plan: ts.Plan{Op: ts.Insert, Allocate: true, User: astray(made(row(day, "aa", 5)))}},
		{Name: "new, a generation far ahead", SignIn: signIn(far, "aa", 5),
			Plan: ts.Plan{Op: ts.Insert, Allocate: true, User: astray(made(row(day, "aa", 5)))}},
		{Name: "new, keys a day ahead", SignIn: signIn(7, "aa", day),
			Plan: ts.Plan{Op: ts.Insert, Allocate: true, User: astray(made(row(7, "aa", day)))}},
		{Name: "new, keys far ahead", SignIn: signIn(far, "aa", day+1), Refusal: tooLate},
		{Name: "a generation far ahead", State: is, SignIn: signIn(far, "aa", 5), Plan: ts.Plan{Op: ts.Update, User: row(day, "aa", 5)}},
		{Name: "a generation far ahead, and new keys", State: is, SignIn: signIn(far, "bb", 8),
			Plan: ts.Plan{Op: ts.Insert, Replace: true, User: made(row(day, "bb", 8))}},
		{Name: "keys a day ahead", State: is, SignIn: signIn(day, "aa", day), Plan: ts.Plan{Op: ts.Update, User: row(day, "aa", day)}},
		{Name: "keys far ahead", State: is, SignIn: signIn(far, "aa", day+1), Refusal: tooLate},
		{Name: "keys far ahead, no generation", State: is, SignIn: signIn(0, "aa", far), Refusal: tooLate},
		{Name: "keys far ahead that are known", State: stateOf(row(7, "aa", far)), SignIn: signIn(far, "aa", far),
			Plan: ts.Plan{Op: ts.Update, User: row(day, "aa", far)}},
		{Name: "a known generation far ahead", State: stateOf(row(far, "aa", 5)), SignIn: signIn(far+1, "aa", 5),
			Plan: ts.Plan{User: row(far, "aa", 5)}},
	}
}
