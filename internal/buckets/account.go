package buckets

import "holdfast/internal/errcode"

// Account owns buckets.
type Account struct {
	ID      AccountID
	Name    string
	Created Moment
	Quota   Quota
}

// Key is an access key of an account.
type Key struct {
	ID      string // access key ID, 20 of A-Z and 2-7
	Account AccountID
	Secret  []byte // encrypted
	Created Moment
	Revoked Moment // 0: not revoked
}

// ConfiguredKey is an access key of the configuration. It is not in the database.
type ConfiguredKey struct {
	ID      string
	Account string // its name
	Secret  string
}

// Errors of accounts and keys.
var (
	ErrNoAccount        = errcode.New(errcode.NotFound, "the account does not exist")
	ErrAccountExists    = errcode.New(errcode.Conflict, "an account with this name exists")
	ErrAccountHasBucket = errcode.New(errcode.Conflict, "the account has buckets: delete them first")
	ErrNoKey            = errcode.New(errcode.NotFound, "the access key does not exist")
	ErrKeyConfigured    = errcode.New(errcode.Conflict, "the access key is in the configuration: remove it there, and restart the server")
	ErrKeyExists        = errcode.New(errcode.Conflict, "an access key with this ID exists")
)
