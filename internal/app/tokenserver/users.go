package tokenserver

import (
	"context"

	"holdfast/internal/db/engine"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/tokenserver"
)

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

type userInput struct {
	UID    int64  `subject:"uid" doc:"storage user's UID on this server" least:"1" example:"17"`
	FxAUID string `flag:"fxa-uid" doc:"account ID at the accounts server"`
	FxAKID string `flag:"fxa-kid" doc:"ID of the account's keys"`
}

func (in userInput) Check() error {
	if in.UID < 1 {
		return &operate.InputError{Input: "uid", Reason: "must be at least 1"}
	}
	_, err := in.keys()
	return err
}

func (in userInput) keys() (keys tokenserver.KeyID, err error) {
	if in.FxAKID == "" {
		return keys, nil
	}
	if keys, err = tokenserver.ParseKeyID(in.FxAKID); err != nil || keys.String() != in.FxAKID {
		return keys, &operate.InputError{Input: "fxa-kid", Reason: "expected the key ID from tokenserver accounts show"}
	}
	return keys, nil
}

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

// usersOf returns the current user first.
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

func withoutStorage(a tokenserver.Account) error {
	if !tokenserver.IsAccountID(a.FxAUID) {
		return errAccountID
	}
	return errcode.Newf(errcode.NotFound, "account %s has no storage here: it never signed in, or was deleted", a.FxAUID)
}

func elsewhere(a tokenserver.Account, u *tokenserver.User) error {
	return errcode.Newf(errcode.Conflict, "account %s is stored on node %s: name its storage user there, UID %d with --fxa-uid %s --fxa-kid %s",
		a.FxAUID, u.Node, u.UID, a.FxAUID, u.KeyID())
}
