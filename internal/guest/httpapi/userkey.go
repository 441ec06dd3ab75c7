package httpapi

import (
	"strings"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
)

// UserAudience is the aud claim in user tokens.
const UserAudience = "holdfast-guest"

// User token limits.
const (
	userTokenLife   = 10 * time.Minute
	userTokenLeeway = 30 * time.Second
)

// UserKeys verifies JWTs in which a site names its signed-in user (sub) for UserAudience (aud). It is safe for
// concurrent use.
type UserKeys struct{ keys []*bearer.Keyring }

// NewUserKeys parses the configured keys: secrets of at least 32 bytes (HS256), or PEM public keys (EdDSA or ES256).
// Others are errcode.Invalid.
func NewUserKeys(texts []string) (*UserKeys, error) {
	u := &UserKeys{}
	for i, text := range texts {
		k, err := userKey(text)
		if err != nil {
			return nil, errcode.Newf(errcode.Invalid, "key %d: expected a secret of at least 32 bytes, or a public key in PEM for EdDSA or ES256", i+1)
		}
		u.keys = append(u.keys, k)
	}
	return u, nil
}

// userKey chooses the algorithm by the key's form.
func userKey(text string) (k *bearer.Keyring, err error) {
	algorithms := []string{bearer.HS256}
	if strings.Contains(text, "-----BEGIN") {
		algorithms = []string{bearer.EdDSA, bearer.ES256}
	}
	for _, algorithm := range algorithms {
		k, err = bearer.NewKeyring(bearer.Options{
			Keys: []bearer.Key{{Alg: algorithm, Text: text}}, Audience: UserAudience, MaxLifetime: userTokenLife, Leeway: userTokenLeeway,
		})
		if err == nil {
			return k, nil
		}
	}
	return nil, err
}

// User implements guest.Users. Any key may be the signer. The rule that an ID breaks is reported only for a token with a valid
// signature.
func (u *UserKeys) User(token string, now time.Time) (string, error) {
	for _, k := range u.keys {
		c, err := k.Verify(token, now)
		if err != nil {
			continue
		}
		if problem := guest.UserProblem(c.Subject); problem != "" {
			return "", &guest.UserError{Problem: problem}
		}
		return c.Subject, nil
	}
	return "", guest.ErrUserToken
}
