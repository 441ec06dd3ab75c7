package tokenserver

import (
	"strings"

	"holdfast/internal/errcode"
)

// maxEmail is the maximum length of the column users.email in bytes.
const maxEmail = 255

// accountIDLength is the number of hexadecimal digits of the ID of an account.
const accountIDLength = 32

// Account identifies an account of the accounts server. It comes from a verified
// token or from the operator.
type Account struct {
	FxAUID string // ID of the account at the accounts server
	Domain string // the setting fxa_email_domain, the part of Email after the @
}

// Email returns the key of the account in the table users. It is not an e-mail address;
// the server knows none.
func (a Account) Email() string { return a.FxAUID + "@" + a.Domain }

// Check returns errcode.Denied for an account without an ID, such as the zero Account, and
// for one that the tables cannot store.
func (a Account) Check() error {
	if a.FxAUID == "" || a.Domain == "" {
		return errcode.New(errcode.Denied, "the account ID is empty")
	}
	if !printable(a.FxAUID) || !printable(a.Domain) || len(a.Email()) > maxEmail {
		return errcode.New(errcode.Denied, "the account ID is malformed")
	}
	return nil
}

// PrefixRange returns the bounds of the emails of the accounts whose ID begins with prefix: the first
// is included, the second is not. After a prefix that is shorter than an ID comes a digit, so the
// bounds hold in every collation.
func PrefixRange(prefix string) (first, end string, err error) {
	if prefix == "" || len(prefix) >= accountIDLength || strings.Trim(prefix, "0123456789abcdef") != "" {
		return "", "", errcode.Newf(errcode.Invalid, "expected 1 to %d lower-case hexadecimal digits, with which the ID of an account begins", accountIDLength-1)
	}
	return prefix, prefix + "g", nil
}

// IsAccountID reports whether s has the form of an account ID of the accounts
// server: 16 bytes in lower-case hexadecimal digits.
func IsAccountID(s string) bool {
	return len(s) == accountIDLength && strings.Trim(s, "0123456789abcdef") == ""
}

// ParseAccount parses an account as operators write it: an ID, or ID@domain as in the
// table users.
func ParseAccount(s, domain string) (Account, error) {
	a := Account{FxAUID: strings.TrimSuffix(s, "@"+domain), Domain: domain}
	if err := a.Check(); err != nil {
		return Account{}, err
	}
	return a, nil
}

// accountOf returns the account of a row of users. A row from before a change of
// the domain setting keeps its own domain.
func accountOf(email string) Account {
	i := strings.LastIndexByte(email, '@')
	if i < 0 {
		return Account{FxAUID: email}
	}
	return Account{FxAUID: email[:i], Domain: email[i+1:]}
}

// printable reports whether s consists of visible ASCII without spaces.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
