package syncstorage

import "holdfast/internal/fault"

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
		return fault.New(fault.Denied, "the token has no uid")
	}
	return nil
}
