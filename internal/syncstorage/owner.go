package syncstorage

import "holdfast/internal/fault"

// Owner is whose data a request touches. All of it comes from the verified
// token, nothing from the path. SQLite and PostgreSQL key by UID; Spanner keys
// by the pair (FxAUID, FxAKID), which tells two accounts with the same UID
// apart.
type Owner struct {
	UID    int64  // the tokenserver's number for this user and set of keys
	FxAUID string // the account's id at the accounts server, may be empty
	FxAKID string // the id of the account's keys, "<time>-<client state>", may be empty
}

// CheckUID refuses an owner that a backend keyed by UID must not accept. The
// zero owner would make strangers share their data.
func (o Owner) CheckUID() error {
	if o.UID <= 0 {
		return fault.New(fault.Denied, "the token has no uid")
	}
	return nil
}
