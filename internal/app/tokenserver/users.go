package tokenserver

import (
	"context"

	"holdfast/internal/db/engine"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/tokenserver"
)

// userOperations declares users/quota, for a server with storage whose accounts are on another server.
func (s *Accounts) userOperations() []operate.Operation {
	return []operate.Operation{operate.NewChange(operate.About{
		Path: "users/quota", Doc: "Show or set a storage user's quota", Title: "Storage user quota", Button: "Set quota",
		Group: "Manage storage users by their UID",
		Text:  "A server with storage but without accounts knows only storage users' UIDs.",
		More: "It is as accounts quota, for a server with storage but without accounts. On Spanner it needs --fxa-uid and\n" +
			"--fxa-kid, which accounts show prints on the server with the accounts.",
		Example: "17 2GiB\n",
	}, s.changeUserQuota)}
}

// userInput names a storage user without accounts. FxAUID and FxAKID are only needed on Spanner.
type userInput struct {
	UID    int64  `subject:"uid" doc:"storage user's UID on this server" least:"1" example:"17"`
	FxAUID string `flag:"fxa-uid" doc:"account ID at the accounts server"`
	FxAKID string `flag:"fxa-kid" doc:"ID of the account's keys"`
}

// Check does not know the engine; named checks that Spanner gets its key.
func (in userInput) Check() error {
	if in.UID < 1 {
		return &operate.InputError{Input: "uid", Reason: "must be at least 1"}
	}
	_, err := in.keys()
	return err
}

// keys returns the zero KeyID if the flag is not given. It accepts only the form that accounts show prints.
func (in userInput) keys() (keys tokenserver.KeyID, err error) {
	if in.FxAKID == "" {
		return keys, nil
	}
	if keys, err = tokenserver.ParseKeyID(in.FxAKID); err != nil || keys.String() != in.FxAKID {
		return keys, &operate.InputError{Input: "fxa-kid", Reason: "expected the key ID from tokenserver accounts show"}
	}
	return keys, nil
}

// named makes the user from the input alone, without reading a database. On Spanner, the account and the keys are part
// of the primary key, so they are required.
func (s *Accounts) named(in userInput) (u tokenserver.User, err error) {
	if kind, _ := s.storage.Engine(); kind == engine.Spanner && (in.FxAUID == "" || in.FxAKID == "") {
		return u, &operate.InputError{Input: "uid", Reason: "requires --fxa-uid and --fxa-kid on Spanner, where they are part of the key"}
	}
	keys, err := in.keys()
	return tokenserver.User{UID: in.UID, Email: in.FxAUID + "@", KeysChangedAt: keys.ChangedAt, ClientState: keys.ClientState}, err
}

type userQuotaInput struct {
	userInput
	quotaValue
}

// changeUserQuota sets or shows the quota of only this storage user.
func (s *Accounts) changeUserQuota(ctx context.Context, in userQuotaInput) (out quotaOutput, err error) {
	if !s.storage.IsOpen() {
		return out, errNoStorage
	}
	u, err := s.named(in.userInput)
	if err != nil {
		return out, err
	}
	return s.setQuota(ctx, []tokenserver.User{u}, in.quotaValue)
}

// usersOf returns an account's storage users on this server, the current user first, then replaced users that still
// have data. It returns errcode.Conflict if accounts are disabled or the current user is on another node, and
// errcode.NotFound if the account has no storage here.
func (s *Accounts) usersOf(ctx context.Context, name string) (users []tokenserver.User, err error) {
	if s.opened == nil {
		return nil, errcode.Newf(errcode.Conflict, "%v, or name a storage user by its UID", errDisabled)
	}
	a, err := s.opened.ParseAccount(name)
	if err != nil {
		return nil, err
	}
	st, err := s.opened.AccountState(ctx, a)
	if err != nil {
		return nil, err
	}
	var away error
	for _, replaced := range []bool{false, true} {
		for i := range st.Users {
			switch u := &st.Users[i]; {
			case u.Replaced != replaced || u.IsDeleted():
			case s.opened.IsLocal(u):
				users = append(users, *u)
			case !replaced:
				away = elsewhere(a, u)
			}
		}
	}
	switch {
	case away != nil:
		return nil, away
	case users == nil || users[0].Replaced:
		return nil, withoutStorage(a)
	}
	return users, nil
}

// withoutStorage returns the error for an account without storage: about the ID if it is mistyped, otherwise
// errcode.NotFound.
func withoutStorage(a tokenserver.Account) error {
	if !tokenserver.IsAccountID(a.FxAUID) {
		return errAccountID
	}
	return errcode.Newf(errcode.NotFound, "account %s has no storage here: it never signed in, or was deleted", a.FxAUID)
}

// elsewhere returns errcode.Conflict with the flags that name the user on its node.
func elsewhere(a tokenserver.Account, u *tokenserver.User) error {
	return errcode.Newf(errcode.Conflict, "account %s is stored on node %s: name its storage user there, UID %d with --fxa-uid %s --fxa-kid %s",
		a.FxAUID, u.Node, u.UID, a.FxAUID, u.KeyID())
}
