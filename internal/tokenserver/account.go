package tokenserver

import (
	"strings"

	"holdfast/internal/errcode"
)

const maxEmail = 255 // characters in the column users.email

const accountIDLength = 32 // hex digits

// Account identifies an account. It comes from a verified token or the operator.
type Account struct {
	FxAUID string // ID at the accounts server
	Domain string // fxa_email_domain
}

// Email returns the account's key in the table users. The server knows no real e-mail address.
func (a Account) Email() string { return a.FxAUID + "@" + a.Domain }

// Check returns errcode.Denied if the tables cannot store the ID.
func (a Account) Check() error {
	if a.FxAUID == "" {
		return errcode.New(errcode.Denied, "the account ID is empty")
	}
	if a.Domain == "" {
		return errcode.New(errcode.Denied, "the account's domain is empty: set tokenserver.fxa_email_domain")
	}
	if !printable(a.FxAUID) || !printable(a.Domain) || len(a.Email()) > maxEmail {
		return errcode.New(errcode.Denied, "the account ID is malformed")
	}
	return nil
}

// PrefixRange returns the emails from first to before end for an account ID prefix. A digit follows a shorter prefix,
// so the range is correct in every collation.
func PrefixRange(prefix string) (first, end string, err error) {
	if prefix == "" || len(prefix) >= accountIDLength || strings.Trim(prefix, "0123456789abcdef") != "" {
		return "", "", errcode.Newf(errcode.Invalid, "expected the first 1 to %d lower-case hexadecimal digits of an account ID", accountIDLength-1)
	}
	return prefix, prefix + "g", nil
}

// IsAccountID accepts 16 bytes in lower-case hex.
func IsAccountID(s string) bool {
	return len(s) == accountIDLength && strings.Trim(s, "0123456789abcdef") == ""
}

// ParseAccount parses an ID, or ID@domain as in the table users.
func ParseAccount(s, domain string) (Account, error) {
	a := Account{FxAUID: strings.TrimSuffix(s, "@"+domain), Domain: domain}
	if err := a.Check(); err != nil {
		return Account{}, err
	}
	return a, nil
}

// accountOf parses an account's key in the table users. It keeps the key's domain, because the configured domain may
// have changed.
func accountOf(email string) Account {
	i := strings.LastIndexByte(email, '@')
	if i < 0 {
		return Account{FxAUID: email}
	}
	return Account{FxAUID: email[:i], Domain: email[i+1:]}
}

// printable reports whether s is ASCII without spaces.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
