package tokenserver

import (
	"errors"
	"slices"
	"time"

	"holdfast/internal/errcode"
)

// SignIn is a sign-in with verified credentials.
type SignIn struct {
	Generation Mark // from the access token
	Keys       KeyID
	Now        time.Time // becomes User.CreatedAt, in ms, or later if the account's newest row is later

	AllowNew    bool    // setting allow_new_users
	ReleaseRate float64 // setting node_capacity_release_rate
	SpannerNode int64   // setting spanner_node_id; 0 means to choose by load
}

// AccountState is everything that decides about a sign-in.
type AccountState struct {
	Access Access
	Users  []User // at most MaxUsers, by CreatedAt, newest first
}

// Op is a sign-in's effect on the table users.
type Op uint8

// These are the effects of a sign-in.
const (
	Keep   Op = iota
	Update    // new generation or key time for the unreplaced row
	Insert    // new row, i.e. new storage user
)

// Plan is the rows to write for a sign-in.
type Plan struct {
	Op Op
	// User is the current row after the sign-in. With Insert the store sets Email (Account.Email) and the new UID, and
	// with Allocate the node.
	User     User
	Allocate bool // choose a node first
	// Replace marks other unreplaced rows as replaced at User.CreatedAt.
	Replace bool
}

// Idle reports whether nothing must be written, so that most sign-ins need no write lock.
func (p *Plan) Idle() bool { return p.Op == Keep && !p.Replace }

// Decide applies the sign-in rules in order. The store calls it with the account's rows under the account's lock. If it
// returns a *Refusal, nothing is written except the record of a NotAdmitted account.
func Decide(st AccountState, s SignIn) (Plan, error) {
	// The new row must be the newest even if the clock was set back.
	created := millis(s.Now)
	if len(st.Users) > 0 {
		created = max(created, st.Users[0].CreatedAt+1)
	}
	st.dropDeleted()
	latest := s.Now.Add(maxAhead).UnixMilli()
	if st.Access == Denied || len(st.Users) == 0 && st.Access != Allowed && !s.AllowNew {
		return Plan{}, &Refusal{Reason: NotAdmitted}
	}
	if len(st.Users) == 0 {
		if s.Keys.ChangedAt.Value > latest {
			return Plan{}, &Refusal{Reason: BadKeysChangedAt}
		}
		return Plan{Op: Insert, Allocate: true, User: User{
			Generation:    min(s.Generation.Value, latest),
			ClientState:   s.Keys.ClientState,
			KeysChangedAt: s.Keys.ChangedAt,
			CreatedAt:     created,
		}}, nil
	}
	current := st.current()
	if current.Generation == Retired {
		return decideRetired(current, s)
	}
	if err := checkSignIn(current, st.pastState(current, s.Keys.ClientState), s); err != nil {
		return Plan{}, err
	}
	return st.follow(current, s, created), nil
}

// dropDeleted ignores rows of a deleted account, which signs in like a new account.
func (st *AccountState) dropDeleted() {
	if slices.ContainsFunc(st.Users, func(u User) bool { return u.IsDeleted() }) {
		st.Users = slices.DeleteFunc(slices.Clone(st.Users), func(u User) bool { return u.IsDeleted() })
	}
}

// maxAhead limits how far the accounts server's clock may be ahead. Storing a later generation or key time would
// refuse all later sign-ins.
const maxAhead = 24 * time.Hour

// Records reports whether the refusal is recorded, so that an operator can admit the account.
func (st *AccountState) Records(refusal error) bool {
	var r *Refusal
	return errors.As(refusal, &r) && r.Reason == NotAdmitted && st.Access != Denied
}

// decideRetired decides for an account that the accounts server reported as deleted.
func decideRetired(current *User, s SignIn) (Plan, error) {
	if s.Generation != At(Retired) {
		return Plan{}, &Refusal{Reason: BadGeneration}
	}
	if current.Node == "" {
		return Plan{}, errcode.New(errcode.Internal, "a retired account has no node")
	}
	if err := checkSignIn(current, false, s); err != nil {
		return Plan{}, err
	}
	return Plan{User: *current}, nil
}

// current returns the row with the highest generation, and among equals the newest.
func (st *AccountState) current() *User {
	best := &st.Users[0]
	for i := range st.Users[1:] {
		u := &st.Users[i+1]
		if u.Generation > best.Generation ||
			u.Generation == best.Generation && u.CreatedAt > best.CreatedAt {
			best = u
		}
	}
	return best
}

// pastState reports whether the account used these keys before the current keys.
func (st *AccountState) pastState(current *User, state string) bool {
	for i := range st.Users {
		if u := &st.Users[i]; u.ClientState == state && u.ClientState != current.ClientState {
			return true
		}
	}
	return false
}

const (
	stateEmpty        = "empty string"
	stateStale        = "stale value"
	stateNoGeneration = "new value with no generation change"
	stateNoKeys       = "new value with no keys_changed_at change"
)

// checkSignIn checks the rules in the protocol's order: clients and their tests depend on which rule fails first.
func checkSignIn(current *User, past bool, s SignIn) error {
	generation := Mark{current.Generation, true}
	keys, state := s.Keys.ChangedAt, s.Keys.ClientState
	changed := state != current.ClientState
	switch {
	case current.KeysChangedAt.Before(keys) && s.Generation.Before(keys):
		return &Refusal{Reason: BadKeysChangedAt}
	case state == "" && current.ClientState != "":
		return &Refusal{Reason: BadClientState, Detail: stateEmpty}
	case past:
		return &Refusal{Reason: BadClientState, Detail: stateStale}
	case changed && s.Generation.UpTo(generation):
		return &Refusal{Reason: BadClientState, Detail: stateNoGeneration}
	case changed && keys.UpTo(current.KeysChangedAt):
		return &Refusal{Reason: BadClientState, Detail: stateNoKeys}
	case s.Generation.Before(generation):
		return &Refusal{Reason: BadGeneration}
	case keys.Before(current.KeysChangedAt):
		return &Refusal{Reason: BadKeysChangedAt}
	case !keys.Known && current.KeysChangedAt.Value != 0:
		return &Refusal{Reason: BadKeysChangedAt}
	case keys.Value > s.Now.Add(maxAhead).UnixMilli() && keys != current.KeysChangedAt:
		return &Refusal{Reason: BadKeysChangedAt}
	}
	return nil
}

// follow returns the rows after a sign-in that the rules allow. created is the time for a new row.
func (st *AccountState) follow(current *User, s SignIn, created int64) Plan {
	next := *current
	next.Generation = nextGeneration(current, s)
	if s.Keys.ChangedAt.Known {
		next.KeysChangedAt = s.Keys.ChangedAt
	}
	p := Plan{Op: Keep, User: next}
	switch {
	case s.Keys.ClientState != current.ClientState || current.needsNode():
		// New keys, which follow a lost password, create a storage user on the same node with an empty storage.
		p.Op, p.Allocate = Insert, current.needsNode()
		p.User.UID = 0
		p.User.ClientState = s.Keys.ClientState
		p.User.Replaced, p.User.ReplacedAt = false, 0
		p.User.CreatedAt = created
	case next.Generation != current.Generation || next.KeysChangedAt != current.KeysChangedAt:
		p.Op = Update
	}
	for i := range st.Users {
		u := &st.Users[i]
		if !u.Replaced && (u != current || p.Op == Insert) {
			p.Replace = true
		}
	}
	return p
}

// nextGeneration returns the generation to store. Newer keys advance it even if the token contains no generation.
func nextGeneration(current *User, s SignIn) int64 {
	keys := s.Keys.ChangedAt.Value
	switch {
	case s.Generation.Known:
		return max(min(s.Generation.Value, s.Now.Add(maxAhead).UnixMilli()), current.Generation)
	case keys > current.Generation && keys > current.KeysChangedAt.Value:
		return keys
	}
	return current.Generation
}
