package tokenserver

// Revoked is a set of users whose unexpired tokens are revoked. The zero value is empty. Has may be called concurrently,
// but not while a user is added. Copies share the set.
type Revoked struct {
	accounts map[string]struct{}      // all users of these accounts
	users    map[storageUser]struct{} // users of accounts that may have other, valid users
}

// storageUser includes the account, because token servers that share a node issue the same UIDs.
type storageUser struct {
	fxaUID string
	uid    int64
}

// RevokeAccount adds all users of an account.
func (r *Revoked) RevokeAccount(fxaUID string) {
	if r.accounts == nil {
		r.accounts = map[string]struct{}{}
	}
	r.accounts[fxaUID] = struct{}{}
}

// RevokeUser adds a storage user.
func (r *Revoked) RevokeUser(u *User) {
	if r.users == nil {
		r.users = map[storageUser]struct{}{}
	}
	r.users[storageUser{u.Account().FxAUID, u.UID}] = struct{}{}
}

// Has reports whether the user's tokens are revoked. It is called for every storage request, so an empty set costs
// nothing.
func (r *Revoked) Has(fxaUID string, uid int64) bool {
	if len(r.accounts) > 0 {
		if _, ok := r.accounts[fxaUID]; ok {
			return true
		}
	}
	if len(r.users) == 0 {
		return false
	}
	_, ok := r.users[storageUser{fxaUID, uid}]
	return ok
}
