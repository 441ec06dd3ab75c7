package syncstorage

import "holdfast/internal/errcode"

// Owner is a request's user. It comes from the verified token, never from the path. SQLite and PostgreSQL use UID as
// the key. Spanner uses (FxAUID, FxAKID), which distinguishes accounts with the same UID.
type Owner struct {
	UID    int64  `json:"UID"`    // tokenserver's number for user and key ID
	FxAUID string `json:"FxAUID"` // account ID; may be empty
	FxAKID string `json:"FxAKID"` // key ID, "<time>-<client state>"; may be empty
}

// CheckUID rejects an owner without a valid UID, because such users would share data.
func (o Owner) CheckUID() error {
	if o.UID <= 0 {
		return errcode.New(errcode.Denied, "the token has no uid")
	}
	return nil
}

// UIDs returns the owners' UIDs, or the first CheckUID error.
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
