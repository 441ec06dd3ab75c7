package buckets

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"holdfast/internal/errcode"
)

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
	KeyTerms
}

// KeyTerms are a name for people, and what a key may do until when.
type KeyTerms struct {
	Name    string
	Expires Moment // 0: never
	Limits  KeyLimits
}

// Equal reports whether two terms are the same.
func (t *KeyTerms) Equal(o *KeyTerms) bool {
	return t.Name == o.Name && t.Expires == o.Expires && t.Limits.Text() == o.Limits.Text()
}

// MaxKeyName is the maximum length of the name of a key, in bytes.
const MaxKeyName = 100

// Check returns errcode.Invalid for terms that no key can have.
func (t *KeyTerms) Check() error {
	if len(t.Name) > MaxKeyName || !utf8.ValidString(t.Name) || strings.ContainsFunc(t.Name, unicode.IsControl) {
		return errcode.Newf(errcode.Invalid, "the name of the key is not valid: expected at most %d bytes of text", MaxKeyName)
	}
	return t.Limits.Check()
}

// Credential is an access key that works, with its account and its secret.
type Credential struct {
	Account Account
	Secret  string
	Expires Moment // 0: never
	Limits  KeyLimits
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
	ErrKeyChanged       = errcode.New(errcode.Conflict, "the access key was changed at the same time: try again")
	ErrKeyExists        = errcode.New(errcode.Conflict, "an access key with this ID exists")
)
