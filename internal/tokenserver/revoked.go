package tokenserver

// Revoked is whose tokens are refused though they have not expired. Its zero value
// is nobody's.
type Revoked struct {
	accounts map[string]struct{}      // by FxAUID
	users    map[storageUser]struct{} // of accounts that may have others
}

// storageUser is one of an account: a node may serve the storage users of several
// tokenservers, which give out the same UIDs.
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

// Has reports whether the tokens of a storage user are refused.
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
