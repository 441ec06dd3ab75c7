package syncstorage

import "holdfast/internal/errcode"

// Owner identifies the user of a request. It comes from the verified token, never
// from the path. SQLite and PostgreSQL use UID as the key. Spanner uses (FxAUID,
// FxAKID), which distinguishes two accounts with the same UID.
type Owner struct {
	UID    int64  // the tokenserver's number for this user and key ID
	FxAUID string // ID of the account at the accounts server, may be empty
	FxAKID string // ID of the account's keys, "<time>-<client state>", may be empty
}

// CheckUID rejects an owner that is not valid as a key in backends keyed by UID.
// With the zero owner, strangers would share data.
func (o Owner) CheckUID() error {
	if o.UID <= 0 {
		return errcode.New(errcode.Denied, "the token has no uid")
	}
	return nil
}

// UIDs returns the UIDs of the owners in their order, or the error of CheckUID for
// the first owner without one.
func UIDs(owners []Owner) ([]int64, error) {
	uids := make([]int64, len(owners))
	for i, o := range owners {
		if err := o.CheckUID(); err != nil {
			return nil, err
		}
		uids[i] = o.UID
	}
	return uids, nil
}
