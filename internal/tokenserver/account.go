package tokenserver

import (
	"strings"

	"holdfast/internal/fault"
)

// maxEmail is what the column users.email holds, in bytes.
const maxEmail = 255

// Account is whose rows a step touches: an account of the accounts server. It
// comes from a verified token or from the operator.
type Account struct {
	FxAUID string // the account's id at the accounts server
	Domain string // the setting fxa_email_domain, the second half of Email
}

// Email is the key of the account in the table users. It is not an address:
// nobody's mail is known here.
func (a Account) Email() string { return a.FxAUID + "@" + a.Domain }

// Check refuses, with fault.Denied, an account without a name, the zero
// Account among them, and one that the tables cannot hold.
func (a Account) Check() error {
	if a.FxAUID == "" || a.Domain == "" {
		return fault.New(fault.Denied, "the account ID is empty")
	}
	if !printable(a.FxAUID) || !printable(a.Domain) || len(a.Email()) > maxEmail {
		return fault.New(fault.Denied, "the account ID is malformed")
	}
	return nil
}

// IsAccountID reports whether s has the shape of an account's id at the accounts
// server: 16 bytes in lower-case hexadecimal digits.
func IsAccountID(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

// ParseAccount reads an account as an operator names it: by its id, or by id
// and domain as they stand in the table users.
func ParseAccount(s, domain string) (Account, error) {
	a := Account{FxAUID: strings.TrimSuffix(s, "@"+domain), Domain: domain}
	if err := a.Check(); err != nil {
		return Account{}, err
	}
	return a, nil
}

// accountOf is the account that a row of users belongs to. A row of another
// domain, left from before the setting changed, keeps its own.
func accountOf(email string) Account {
	i := strings.LastIndexByte(email, '@')
	if i < 0 {
		return Account{FxAUID: email}
	}
	return Account{FxAUID: email[:i], Domain: email[i+1:]}
}

// printable reports whether s is of visible ASCII, no space.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
