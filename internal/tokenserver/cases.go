package tokenserver

import "time"

// Case is a line of the table that defines Decide. The suite in storetest puts
// the same lines before every backend.
type Case struct {
	Name     string
	Standing Standing
	SignIn   SignIn

	Refusal *Refusal // nil: let in
	Plan    Plan
}

// caseNow is the moment of every case's sign-in; CaseNode is the node on which
// its users are.
const (
	caseNow  = 100_000
	CaseNode = "https://node.example"
)

// Cases is the table. The rows of a case have no UID and no NodeID unless
// Decide passes them on: a backend gives its own.
func Cases() []Case {
	var all []Case
	for _, group := range [][]Case{
		casesOfNewcomers(), casesOfProgress(), casesOfRefusal(), casesOfOrder(), casesOfPlace(), casesOfRetired(),
	} {
		all = append(all, group...)
	}
	return all
}

// row is a current row: of generation, client state and time of keys, where a
// negative time is unknown.
func row(generation int64, state string, keys int64) User {
	u := User{Generation: generation, ClientState: state, CreatedAt: 1000, Node: CaseNode}
	if keys >= 0 {
		u.KeysChangedAt = Mark{keys, true}
	}
	return u
}

// at is the row as it was created, and replaced when that is above 0.
func (u User) at(created, replaced int64) User {
	u.CreatedAt, u.Replaced, u.ReplacedAt = created, replaced > 0, replaced
	return u
}

// astray is the row on a node that is not there.
func (u User) astray() User {
	u.Node = ""
	return u
}

// made is the row as this sign-in inserts it.
func (u User) made() User { return u.at(caseNow, 0) }

func standing(users ...User) Standing { return Standing{Users: users} }

// signIn is one with a generation, a client state and a time of keys; 0 is
// unknown.
func signIn(generation int64, state string, keys int64) SignIn {
	return SignIn{
		Generation: At(generation), Keys: KeyID{At(keys), state}, Now: time.UnixMilli(caseNow),
		AllowNew: true, ReleaseRate: 0.1,
	}
}

// closed is a sign-in on a server that lets no new accounts in.
func closed(s SignIn) SignIn {
	s.AllowNew = false
	return s
}

func casesOfNewcomers() []Case {
	new7 := Plan{Op: Insert, Allocate: true, User: row(7, "aa", 5).made().astray()}
	return []Case{
		{Name: "new", SignIn: signIn(7, "aa", 5), Plan: new7},
		{Name: "new, without anything", SignIn: signIn(0, "", 0),
			Plan: Plan{Op: Insert, Allocate: true, User: row(0, "", -1).made().astray()}},
		{Name: "new, keys newer than the generation", SignIn: signIn(7, "aa", 9),
			Plan: Plan{Op: Insert, Allocate: true, User: row(7, "aa", 9).made().astray()}},
		{Name: "new, on the allow list", Standing: Standing{Access: Allowed}, SignIn: closed(signIn(7, "aa", 5)), Plan: new7},
		{Name: "new, closed", SignIn: closed(signIn(7, "aa", 5)), Refusal: &Refusal{Reason: NotAdmitted}},
		{Name: "new, on the deny list", Standing: Standing{Access: Denied}, SignIn: signIn(7, "aa", 5),
			Refusal: &Refusal{Reason: NotAdmitted}},
		{Name: "known, closed", Standing: standing(row(7, "aa", 5)), SignIn: closed(signIn(7, "aa", 5)),
			Plan: Plan{User: row(7, "aa", 5)}},
		{Name: "known, on the deny list", Standing: Standing{Access: Denied, Users: []User{row(7, "aa", 5)}},
			SignIn: signIn(7, "aa", 5), Refusal: &Refusal{Reason: NotAdmitted}},
	}
}

func casesOfProgress() []Case {
	is := standing(row(7, "aa", 5))
	return []Case{
		{Name: "nothing new", Standing: is, SignIn: signIn(7, "aa", 5), Plan: Plan{User: row(7, "aa", 5)}},
		{Name: "no generation", Standing: is, SignIn: signIn(0, "aa", 5), Plan: Plan{User: row(7, "aa", 5)}},
		{Name: "generation grows", Standing: is, SignIn: signIn(8, "aa", 5), Plan: Plan{Op: Update, User: row(8, "aa", 5)}},
		{Name: "keys grow with the generation", Standing: is, SignIn: signIn(8, "aa", 8), Plan: Plan{Op: Update, User: row(8, "aa", 8)}},
		{Name: "keys grow to the generation", Standing: is, SignIn: signIn(7, "aa", 7), Plan: Plan{Op: Update, User: row(7, "aa", 7)}},
		{Name: "keys become known", Standing: standing(row(7, "aa", -1)), SignIn: signIn(7, "aa", 9),
			Plan: Plan{Op: Update, User: row(7, "aa", 9)}},
		{Name: "keys stay unknown", Standing: standing(row(7, "aa", -1)), SignIn: signIn(7, "aa", 0), Plan: Plan{User: row(7, "aa", -1)}},
		{Name: "keys stay 0", Standing: standing(row(7, "aa", 0)), SignIn: signIn(7, "aa", 0), Plan: Plan{User: row(7, "aa", 0)}},
		{Name: "no generation, keys newer than everything", Standing: is, SignIn: signIn(0, "aa", 9),
			Plan: Plan{Op: Update, User: row(9, "aa", 9)}},
		{Name: "no generation, keys newer than the keys", Standing: is, SignIn: signIn(0, "aa", 6),
			Plan: Plan{Op: Update, User: row(7, "aa", 6)}},
		{Name: "still no client state", Standing: standing(row(7, "", 5)), SignIn: signIn(7, "", 5), Plan: Plan{User: row(7, "", 5)}},
		{Name: "a first client state", Standing: standing(row(7, "", 5)), SignIn: signIn(8, "aa", 8),
			Plan: Plan{Op: Insert, Replace: true, User: row(8, "aa", 8).made()}},
		{Name: "new keys", Standing: is, SignIn: signIn(8, "bb", 8), Plan: Plan{Op: Insert, Replace: true, User: row(8, "bb", 8).made()}},
		{Name: "new keys, no generation", Standing: is, SignIn: signIn(0, "bb", 9),
			Plan: Plan{Op: Insert, Replace: true, User: row(9, "bb", 9).made()}},
		{Name: "new keys of unknown time", Standing: standing(row(7, "aa", -1)), SignIn: signIn(8, "bb", 0),
			Plan: Plan{Op: Insert, Replace: true, User: row(8, "bb", -1).made()}},
		{Name: "new keys, the clock stepped back", Standing: standing(row(7, "aa", 5).at(2*caseNow, 0)), SignIn: signIn(8, "bb", 8),
			Plan: Plan{Op: Insert, Replace: true, User: row(8, "bb", 8).at(2*caseNow+1, 0)}},
		{Name: "new keys again", Standing: standing(row(8, "bb", 8).at(2000, 0), row(7, "aa", 5).at(1000, 2000)), SignIn: signIn(9, "cc", 9),
			Plan: Plan{Op: Insert, Replace: true, User: row(9, "cc", 9).made()}},
	}
}

func casesOfRefusal() []Case {
	is := standing(row(7, "aa", 5))
	twice := standing(row(8, "bb", 8).at(2000, 0), row(7, "aa", 5).at(1000, 2000))
	state := func(detail string) *Refusal { return &Refusal{Reason: BadClientState, Detail: detail} }
	return []Case{
		{Name: "keys grow beyond the generation", Standing: is, SignIn: signIn(8, "aa", 9), Refusal: &Refusal{Reason: BadKeysChangedAt}},
		{Name: "empty client state", Standing: is, SignIn: signIn(8, "", 8), Refusal: state(stateEmpty)},
		{Name: "stale client state", Standing: twice, SignIn: signIn(9, "aa", 9), Refusal: state(stateStale)},
		{Name: "new client state, same generation", Standing: is, SignIn: signIn(7, "bb", 7), Refusal: state(stateNoGeneration)},
		{Name: "new client state, older generation", Standing: is, SignIn: signIn(6, "bb", 6), Refusal: state(stateNoGeneration)},
		{Name: "new client state, same keys", Standing: is, SignIn: signIn(8, "bb", 5), Refusal: state(stateNoKeys)},
		{Name: "new client state, older keys", Standing: is, SignIn: signIn(8, "bb", 4), Refusal: state(stateNoKeys)},
		{Name: "new client state, no generation, same keys", Standing: is, SignIn: signIn(0, "bb", 5), Refusal: state(stateNoKeys)},
		{Name: "new client state, no time of keys", Standing: is, SignIn: signIn(8, "bb", 0), Refusal: &Refusal{Reason: BadKeysChangedAt}},
		{Name: "older generation", Standing: is, SignIn: signIn(6, "aa", 5), Refusal: &Refusal{Reason: BadGeneration}},
		{Name: "older keys", Standing: is, SignIn: signIn(7, "aa", 4), Refusal: &Refusal{Reason: BadKeysChangedAt}},
		{Name: "no time of keys", Standing: is, SignIn: signIn(7, "aa", 0), Refusal: &Refusal{Reason: BadKeysChangedAt}},
	}
}

// casesOfOrder break several rules at once: the first one answers.
func casesOfOrder() []Case {
	is := standing(row(7, "aa", 5))
	twice := standing(row(8, "bb", 8).at(2000, 0), row(7, "aa", 5).at(1000, 2000))
	state := func(detail string) *Refusal { return &Refusal{Reason: BadClientState, Detail: detail} }
	return []Case{
		{Name: "keys beyond the generation, and empty state", Standing: is, SignIn: signIn(8, "", 9), Refusal: &Refusal{Reason: BadKeysChangedAt}},
		{Name: "keys beyond an older generation, and stale state", Standing: twice, SignIn: signIn(6, "aa", 9), Refusal: &Refusal{Reason: BadKeysChangedAt}},
		{Name: "empty state that is stale, and no generation change",
			Standing: standing(row(8, "bb", 8).at(2000, 0), row(7, "", 5).at(1000, 2000)), SignIn: signIn(8, "", 8), Refusal: state(stateEmpty)},
		{Name: "stale state, and older generation and keys", Standing: twice, SignIn: signIn(7, "aa", 5), Refusal: state(stateStale)},
		{Name: "no generation change, and no keys change", Standing: is, SignIn: signIn(7, "bb", 5), Refusal: state(stateNoGeneration)},
		{Name: "older generation, and older keys", Standing: is, SignIn: signIn(6, "aa", 4), Refusal: &Refusal{Reason: BadGeneration}},
		{Name: "older generation, and no time of keys", Standing: is, SignIn: signIn(6, "aa", 0), Refusal: &Refusal{Reason: BadGeneration}},
	}
}

func casesOfPlace() []Case {
	return []Case{
		{Name: "replaced without a successor", Standing: standing(row(7, "aa", 5).at(1000, 2000)), SignIn: signIn(7, "aa", 5),
			Plan: Plan{Op: Insert, Allocate: true, User: row(7, "aa", 5).made()}},
		{Name: "replaced, and new keys", Standing: standing(row(7, "aa", 5).at(1000, 2000)), SignIn: signIn(8, "bb", 8),
			Plan: Plan{Op: Insert, Allocate: true, User: row(8, "bb", 8).made()}},
		{Name: "replaced, the rules hold", Standing: standing(row(7, "aa", 5).at(1000, 2000)), SignIn: signIn(6, "aa", 5),
			Refusal: &Refusal{Reason: BadGeneration}},
		{Name: "replaced, closed", Standing: standing(row(7, "aa", 5).at(1000, 2000)), SignIn: closed(signIn(7, "aa", 5)),
			Plan: Plan{Op: Insert, Allocate: true, User: row(7, "aa", 5).made()}},
		{Name: "the node is gone", Standing: standing(row(7, "aa", 5).astray()), SignIn: signIn(8, "aa", 5),
			Plan: Plan{Op: Insert, Allocate: true, Replace: true, User: row(8, "aa", 5).made().astray()}},
		{Name: "an older row was left", Standing: standing(row(7, "bb", 5).at(2000, 0), row(6, "aa", 4).at(1000, 0)), SignIn: signIn(7, "bb", 5),
			Plan: Plan{Replace: true, User: row(7, "bb", 5).at(2000, 0)}},
		{Name: "the greatest generation counts, not the newest row",
			Standing: standing(row(6, "aa", 4).at(2000, 0), row(7, "bb", 5).at(1000, 0)), SignIn: signIn(7, "bb", 5),
			Plan: Plan{Replace: true, User: row(7, "bb", 5).at(1000, 0)}},
		{Name: "of one generation the newest row counts",
			Standing: standing(row(7, "bb", 5).at(2000, 0), row(7, "aa", 5).at(1000, 2000)), SignIn: signIn(7, "bb", 5),
			Plan: Plan{User: row(7, "bb", 5).at(2000, 0)}},
		{Name: "older rows of the same state are not stale",
			Standing: standing(row(8, "aa", 8).at(2000, 0), row(7, "aa", 5).at(1000, 2000)), SignIn: signIn(8, "aa", 8),
			Plan: Plan{User: row(8, "aa", 8).at(2000, 0)}},
	}
}

func casesOfRetired() []Case {
	gone := standing(row(Retired, "aa", 5).at(1000, 2000))
	return []Case{
		{Name: "retired", Standing: gone, SignIn: signIn(8, "aa", 5), Refusal: &Refusal{Reason: BadGeneration}},
		{Name: "retired, no generation", Standing: gone, SignIn: signIn(0, "aa", 5), Refusal: &Refusal{Reason: BadGeneration}},
		{Name: "retired, new keys", Standing: gone, SignIn: signIn(8, "bb", 8), Refusal: &Refusal{Reason: BadGeneration}},
		{Name: "retired, of that very generation", Standing: gone, SignIn: signIn(Retired, "aa", 5),
			Plan: Plan{User: row(Retired, "aa", 5).at(1000, 2000)}},
		{Name: "retired, node gone", Standing: standing(row(Retired, "aa", 5).at(1000, 2000).astray()), SignIn: signIn(8, "aa", 5),
			Refusal: &Refusal{Reason: BadGeneration}},
	}
}
