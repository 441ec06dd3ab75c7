package buckets

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"holdfast/internal/errcode"
)

// Account owns buckets. Its name is the first part in ACCOUNT:BUCKET.
type Account struct {
	// a random UUID (NewUUID); the caller chooses it
	ID      AccountID
	Name    string
	Created Moment
	Quota   Quota // for all buckets together
}

// Key is a stored access key.
type Key struct {
	ID      string // access key ID, as clients send it
	Account AccountID
	Secret  []byte // encrypted
	Created Moment
	Revoked Moment // 0 while the key is valid
	KeyTerms
}

// KeyTerms are the properties that an operator can change.
type KeyTerms struct {
	Name    string // for people; may be empty
	Expires Moment // 0 if the key does not expire
	Limits  KeyLimits
}

// Equal reports whether the terms allow the same. Store.ChangeKey compares with it.
func (t *KeyTerms) Equal(o *KeyTerms) bool {
	return t.Name == o.Name && t.Expires == o.Expires && t.Limits.Text() == o.Limits.Text()
}

// MaxKeyName is the maximum key name length in bytes.
const MaxKeyName = 100

// Check returns errcode.Invalid for a name or limits that cannot be stored. An expiry in the past is valid.
func (t *KeyTerms) Check() error {
	if len(t.Name) > MaxKeyName || !utf8.ValidString(t.Name) || strings.ContainsFunc(t.Name, unicode.IsControl) {
		return errcode.Newf(errcode.Invalid, "the key name is not valid: expected at most %d bytes of text", MaxKeyName)
	}
	return t.Limits.Check()
}

// Credential is a usable access key with its account.
type Credential struct {
	Account Account
	Secret  string    // secret key in plain text, to verify signatures
	Expires Moment    // 0 if the key does not expire; the caller compares it
	Limits  KeyLimits // shared: nobody changes its slices
}

// ConfiguredKey is an access key from the config file.
type ConfiguredKey struct {
	ID      string
	Account string // name
	Secret  string // in plain text
}

var (
	ErrNoAccount        = errcode.New(errcode.NotFound, "the account does not exist")
	ErrAccountExists    = errcode.New(errcode.Conflict, "an account with this name exists")
	ErrAccountHasBucket = errcode.New(errcode.Conflict, "the account has buckets: delete them first")
	ErrNoKey            = errcode.New(errcode.NotFound, "the access key does not exist")
	ErrKeyConfigured    = errcode.New(errcode.Conflict, "the access key is in the configuration: remove it there, and restart the server")
	ErrKeyChanged       = errcode.New(errcode.Conflict, "the access key was changed at the same time: try again")
	ErrKeyExists        = errcode.New(errcode.Conflict, "an access key with this ID exists")
)
