package tokenserver

import (
	"errors"
	"slices"
	"time"

	"holdfast/internal/errcode"
)

// SignIn is a request of a browser for a token.
type SignIn struct {
	Generation Mark // generation of the account, from the access token
	Keys       KeyID
	Now        time.Time

	AllowNew    bool    // the setting allow_new_users
	ReleaseRate float64 // the setting node_capacity_release_rate
	SpannerNode int64   // the setting spanner_node_id; 0: nodes are chosen by load
}

// AccountState is the stored state of an account.
type AccountState struct {
	Access Access
	Users  []User // at most MaxUsers, ordered by CreatedAt, newest first
}

// Op is the effect of a sign-in on the table users.
type Op uint8

// Kinds of effects.
const (
	Keep   Op = iota // nothing
	Update           // the unreplaced row gets a new generation or key time
	Insert           // a new row, and so a new storage user
)

// Plan is what a backend must write for a sign-in, in one transaction.
type Plan struct {
	Op Op
	// User is the current row after the sign-in. With Insert its UID is not set
	// yet, and with Allocate its node is not.
	User User
	// Allocate means that the row needs a node from Allocate.
	Allocate bool
	// Replace means that other unreplaced rows of the account become replaced at
	// User.CreatedAt. Without Insert that repairs what a process left that does not
	// lock accounts the way this service does.
	Replace bool
}

// Idle reports whether there is nothing to write.
func (p *Plan) Idle() bool { return p.Op == Keep && !p.Replace }

// Decide applies the rules of a sign-in in order. A refusal is a *Refusal and
// writes nothing to users; NotAdmitted is recorded for the operator.
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

// dropDeleted removes the rows from before the operator deleted the account, which
// then counts as new.
func (st *AccountState) dropDeleted() {
	if slices.ContainsFunc(st.Users, func(u User) bool { return u.IsDeleted() }) {
		st.Users = slices.DeleteFunc(slices.Clone(st.Users), func(u User) bool { return u.IsDeleted() })
	}
}

// maxAhead is how far the accounts server's clock may be ahead. No row gets a
// generation or a time of keys that is later: all that follow would be refused.
const maxAhead = 24 * time.Hour

// Records reports whether a refusal is recorded for the operator. Refusals of
// accounts denied by name are not.
func (st *AccountState) Records(refusal error) bool {
	var r *Refusal
	return errors.As(refusal, &r) && r.Reason == NotAdmitted && st.Access != Denied
}

// decideRetired accepts a deleted account only with a token of exactly that
// generation, which no accounts server issues.
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

// current returns the current row: the greatest generation, then the newest.
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

// pastState reports whether the client state is an earlier one of the account.
func (st *AccountState) pastState(current *User, state string) bool {
	for i := range st.Users {
		if u := &st.Users[i]; u.ClientState == state && u.ClientState != current.ClientState {
			return true
		}
	}
	return false
}

// Messages of the protocol for an invalid client state.
const (
	stateEmpty        = "empty string"
	stateStale        = "stale value"
	stateNoGeneration = "new value with no generation change"
	stateNoKeys       = "new value with no keys_changed_at change"
)

// checkSignIn compares a sign-in with the current row. The protocol defines the
// order: clients and their tests depend on which rule fails first.
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

// follow plans the changes of an accepted sign-in. New rows get the creation time
// created.
func (st *AccountState) follow(current *User, s SignIn, created int64) Plan {
	next := *current
	next.Generation = nextGeneration(current, s)
	if s.Keys.ChangedAt.Known {
		next.KeysChangedAt = s.Keys.ChangedAt
	}
	p := Plan{Op: Keep, User: next}
	switch {
	case s.Keys.ClientState != current.ClientState || current.needsNode():
		// New keys create a new storage user on the same node. That resets the
		// storage after a lost password.
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

// nextGeneration returns the account's generation after the sign-in. Newer keys
// advance it even if the token has no generation.
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
