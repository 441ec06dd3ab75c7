package tokenserver

// Revoked is the set of users whose unexpired tokens are revoked. The zero value
// is empty.
type Revoked struct {
	accounts map[string]struct{}      // by FxAUID
	users    map[storageUser]struct{} // individual users of accounts that may have other, valid ones
}

// storageUser identifies a user together with its account: a node may serve
// several tokenservers, which issue the same UIDs.
type storageUser struct {
	fxaUID string
	uid    int64
}

// RevokeAccount adds all storage users of an account.
func (r *Revoked) RevokeAccount(fxaUID string) {
	if r.accounts == nil {
		r.accounts = map[string]struct{}{}
	}
	r.accounts[fxaUID] = struct{}{}
}

// RevokeUser adds a storage user of an account.
func (r *Revoked) RevokeUser(u *User) {
	if r.users == nil {
		r.users = map[storageUser]struct{}{}
	}
	r.users[storageUser{u.Account().FxAUID, u.UID}] = struct{}{}
}

// Has reports whether the tokens of a storage user are revoked.
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
