package fxa

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json" // rejects duplicate keys; case-sensitive
	"github.com/go-jose/go-jose/v4/jwt"

	"holdfast/internal/tokenserver"
)

// maxToken limits tokens in bytes; usual tokens take about a thousand.
const maxToken = 16 << 10

// claims omit the audience: the scope decides who may accept the token.
type claims struct {
	Subject    string           `json:"sub"`
	Expires    *jwt.NumericDate `json:"exp"`
	Scope      scopes           `json:"scope"`
	Generation int64            `json:"fxa-generation"`
	Email      any              `json:"email"` // ignored if it is not a string
}

// AccessToken implements tokenserver.Verifier. Opaque tokens, and tokens from unknown keys, are verified by the
// accounts server.
func (c *Client) AccessToken(ctx context.Context, token string) (tokenserver.Identity, error) {
	if token == "" || len(token) > maxToken {
		return tokenserver.Identity{}, refused("the token is empty or too long")
	}
	t, err := parse(token)
	if errors.Is(err, errNoJWT) {
		return c.remoteVerify(ctx, token)
	}
	if err != nil {
		return tokenserver.Identity{}, err
	}
	if !isAccessToken(t.Headers[0]) {
		return tokenserver.Identity{}, refused("the token is not an access token")
	}
	var cl claims
	err = c.open(ctx, t, &cl)
	if errors.Is(err, errNoKey) {
		return c.remoteVerify(ctx, token)
	}
	if err != nil {
		return tokenserver.Identity{}, err
	}
	if cl.Expires == nil || !c.now().Before(cl.Expires.Time()) {
		return tokenserver.Identity{}, refused("the token has expired")
	}
	return identity(&cl)
}

var (
	errNoJWT = errors.New("not a JWT")
	errNoKey = errors.New("no key to verify with")
)

// parse decodes a JWT without verifying it. It returns errNoJWT for anything else.
func parse(token string) (*jwt.JSONWebToken, error) {
	t, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	var algorithm *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &algorithm):
		return nil, refused("the token has another signature algorithm")
	case err != nil || len(t.Headers) != 1:
		return nil, errNoJWT
	}
	return t, nil
}

// isAccessToken requires the type at+jwt (RFC 9068), so that no other token is accepted.
func isAccessToken(h jose.Header) bool {
	typ, _ := h.ExtraHeaders[jose.HeaderType].(string)
	typ = strings.ToLower(typ)
	return strings.TrimPrefix(typ, "application/") == "at+jwt"
}

// open verifies a token and decodes its claims. It returns *tokenserver.Refusal, tokenserver.ErrAccountsUnavailable,
// or errNoKey, which wraps the reason.
func (c *Client) open(ctx context.Context, t *jwt.JSONWebToken, dst any) error {
	keys, err := c.keys.current(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoKey, err)
	}
	if len(keys) == 0 {
		return errNoKey
	}
	payload, ok := verified(t, keys)
	if kid := t.Headers[0].KeyID; !ok && kid != "" && !named(keys, kid) {
		keys, err := c.keys.newer(ctx)
		if err != nil {
			return err
		}
		payload, ok = verified(t, keys)
	}
	if !ok {
		return refused("no key matches the signature")
	}
	if err := json.Unmarshal(payload, dst); err != nil {
		return refused("the claims are malformed")
	}
	return nil
}

// verified returns the payload if any of the keys verifies the token. It tries all keys, because the kid is only a
// hint and configured keys may have none.
func verified(t *jwt.JSONWebToken, keys []jose.JSONWebKey) ([]byte, bool) {
	for _, k := range keys {
		var payload json.RawMessage
		if err := t.Claims(k.Key, &payload); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// identity requires the scope for Sync and a subject.
func identity(cl *claims) (tokenserver.Identity, error) {
	if !slices.Contains(cl.Scope, tokenserver.Scope) {
		return tokenserver.Identity{}, refused("the token has another scope")
	}
	if cl.Subject == "" {
		return tokenserver.Identity{}, refused("the token has no subject")
	}
	email, _ := cl.Email.(string)
	return tokenserver.Identity{
		FxAUID: cl.Subject, Generation: tokenserver.At(cl.Generation), Email: email,
		ReadsEmail: slices.Contains(cl.Scope, "profile") || slices.Contains(cl.Scope, "profile:email"),
	}, nil
}

// refused is a Refusal with BadCredentials. why is for the log.
func refused(why string) error {
	return &tokenserver.Refusal{Reason: tokenserver.BadCredentials, Cause: errors.New(why)}
}

// scopes is a string separated by spaces (OAuth) or commas (legacy), or an array.
type scopes []string

// UnmarshalJSON accepts all three forms.
func (s *scopes) UnmarshalJSON(b []byte) error {
	var list []string
	if len(b) > 0 && b[0] == '[' {
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
	} else {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		list = []string{text}
	}
	*s = nil
	for _, text := range list {
		*s = append(*s, strings.FieldsFunc(text, func(c rune) bool { return c == ',' || unicode.IsSpace(c) })...)
	}
	return nil
}
