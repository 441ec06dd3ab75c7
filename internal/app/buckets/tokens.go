package buckets

import (
	"context"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/buckets/httpapi"
	"holdfast/internal/operate"
)

const (
	// maxTTL is a token's longest lifetime. A token cannot be revoked by itself.
	maxTTL = 90 * 24 * time.Hour
	leeway = 30 * time.Second // clock skew between servers

	keySecret = Name + ".key_secret"
)

// tokenKeys derives the keys for native API tokens. The first key signs.
func tokenKeys(secrets []string) (*bearer.Keyring, error) {
	keys, err := bearer.DerivedKeys(secrets, "buckets")
	if err != nil {
		return nil, err
	}
	return bearer.NewKeyring(bearer.Options{Keys: keys, Audience: httpapi.Audience, Leeway: leeway, MaxLifetime: maxTTL})
}

// tokenOperations declares tokens for the native API. S3 clients use access keys instead.
func (s *Buckets) tokenOperations() []operate.Operation {
	return []operate.Operation{operate.NewChange(operate.About{
		Path: "tokens/create", Doc: "Create an account token for the native API",
		More: "It grants full access to the account's buckets. With --gc it can also claim and free deleted objects in all\n" +
			"accounts. A token cannot be revoked: it is valid until it expires or the account is deleted.",
		Example: "main --ttl 24h",
		Group:   "Create tokens for the native API under /buckets/v1", Title: "Tokens", Button: "Create token",
		Text: "A token grants full access to the account's buckets. It cannot be revoked: it is valid until it expires or the account is deleted.",
	}, on(s, s.createToken))}
}

// tokenInput names the account that the token acts as.
type tokenInput struct {
	accountInput
	operate.Lifetime
	GC bool `flag:"gc" doc:"allow it to claim and free deleted objects in all accounts"`
}

// Check refuses a token that the server would not accept.
func (in tokenInput) Check() error { return in.Within(maxTTL, "") }

// tokenOutput is a new token, which is not stored.
type tokenOutput struct {
	Token string `json:"token" title:"Token" secret:"The token is shown only once."`
}

// Notice is "", so that the token is shown.
func (tokenOutput) Notice() string { return "" }

// createToken returns errcode.NotFound for an unknown account.
func (s *Buckets) createToken(ctx context.Context, in tokenInput) (o tokenOutput, err error) {
	if err := s.needKeySecret(); err != nil {
		return o, err
	}
	a, err := s.account(ctx, in.Account)
	if err == nil {
		o.Token, err = s.tokens.Sign(httpapi.Claims(a, in.GC), s.deps.Clock(), in.TTL)
	}
	return o, err
}
