package httpapi

import (
	"encoding/json"
	"net/http"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

// Audience is the aud claim in tokens. It prevents the use of tokens for other services.
const Audience = "holdfast buckets"

// Claims returns the claims for an account's token. If gc is true, the token also allows claiming and freeing the
// deleted objects of any account.
func Claims(a buckets.Account, gc bool) map[string]any {
	c := map[string]any{"sub": a.ID, "account": a.Name}
	if gc {
		c["gc"] = true
	}
	return c
}

// authenticate requires a token for the account in the path, or for batches a token with the claim gc. It sets x.owner.
func (x *exchange) authenticate() error {
	values := x.in.Header.Values("Authorization")
	if len(values) != 1 {
		return unauthenticated(bearer.ErrMissing)
	}
	c, err := x.Tokens.Parse(values[0], x.Clock())
	if err != nil {
		return unauthenticated(err)
	}
	x.owner = buckets.AccountID(c.Subject)
	var members map[string]json.RawMessage // a struct would ignore case
	var account string
	if json.Unmarshal(c.Raw, &members) != nil || json.Unmarshal(members["account"], &account) != nil || x.owner.Check() != nil {
		return unauthenticated(bearer.Malformed("the claims sub and account must name an account: create a token with holdfast buckets tokens create"))
	}
	web.Identify(x.in, "buckets "+string(x.owner))
	switch x.route.resource {
	case batchList, batch:
		if string(members["gc"]) != "true" {
			return errOperator
		}
	default:
		if x.route.account != account {
			return errAccount
		}
	}
	return nil
}

var (
	errAccount  = web.Refuse(http.StatusForbidden, codeForbidden, "the token is for another account")
	errOperator = web.Refuse(http.StatusForbidden, codeForbidden, "deleted objects need a token that was created with --gc")
)

// unauthenticated refuses with 401.
func unauthenticated(cause error) error {
	return web.RefuseFor(cause, http.StatusUnauthorized, codeCredentials, cause.Error())
}
