package fxa

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json" // takes no repeated keys and no other spelling of them
	"github.com/go-jose/go-jose/v4/jwt"

	"holdfast/internal/tokenserver"
)

// maxToken bounds a token, in bytes. Those of the accounts server have about a
// thousand.
const maxToken = 16 << 10

// claims are those of an access token that matter. The audience does not: the
// token is for whoever accepts its scope.
type claims struct {
	Subject    string           `json:"sub"`
	Expires    *jwt.NumericDate `json:"exp"`
	Scope      scopes           `json:"scope"`
	Generation int64            `json:"fxa-generation"`
}

// AccessToken implements tokenserver.Verifier.
func (c *Client) AccessToken(ctx context.Context, token string) (tokenserver.Identity, error) {
	if token == "" || len(token) > maxToken {
		return tokenserver.Identity{}, refused("a token of no possible length")
	}
	t, err := parse(token)
	if errors.Is(err, errNoJWT) {
		return c.remoteVerify(ctx, token)
	}
	if err != nil {
		return tokenserver.Identity{}, err
	}
	if !isAccessToken(t.Headers[0]) {
		return tokenserver.Identity{}, refused("a token of another type")
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
	return identity(cl.Subject, cl.Scope, cl.Generation)
}

var (
	errNoJWT = errors.New("not a JWT")
	errNoKey = errors.New("no key to verify with")
)

// parse reads a token's form; nothing is verified yet. The error is errNoJWT
// for a text that is no JWT at all.
func parse(token string) (*jwt.JSONWebToken, error) {
	t, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	var algorithm *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &algorithm):
		return nil, refused("a token signed by another algorithm")
	case err != nil || len(t.Headers) != 1:
		return nil, errNoJWT
	}
	return t, nil
}

// isAccessToken checks the header typ (RFC 9068), without which an ID token
// would pass for an access token.
func isAccessToken(h jose.Header) bool {
	typ, _ := h.ExtraHeaders[jose.HeaderType].(string)
	typ = strings.ToLower(typ)
	return strings.TrimPrefix(typ, "application/") == "at+jwt"
}

// open verifies a token's signature and decodes its claims. The errors are
// *tokenserver.Refusal, tokenserver.ErrAccountsAway, and errNoKey, with the
// former in its chain when that is why.
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
		// The accounts server may have changed its key since.
		keys, err := c.keys.newer(ctx)
		if err != nil {
			return err
		}
		payload, ok = verified(t, keys)
	}
	if !ok {
		return refused("the signature fits no key")
	}
	if err := json.Unmarshal(payload, dst); err != nil {
		return refused("claims of the wrong form")
	}
	return nil
}

// verified is the signed text, when one of the keys made the signature. The
// name of the key in the token is only a hint: a configured key may have none.
func verified(t *jwt.JSONWebToken, keys []jose.JSONWebKey) ([]byte, bool) {
	for _, k := range keys {
		var payload json.RawMessage
		if err := t.Claims(k.Key, &payload); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// identity checks what a verified token says.
func identity(user string, scope scopes, generation int64) (tokenserver.Identity, error) {
	if !slices.Contains(scope, tokenserver.Scope) {
		return tokenserver.Identity{}, refused("a token for another scope")
	}
	if user == "" {
		return tokenserver.Identity{}, refused("a token of nobody")
	}
	return tokenserver.Identity{FxAUID: user, Generation: tokenserver.At(generation)}, nil
}

// refused says what is wrong with a token, for the log.
func refused(why string) error {
	return &tokenserver.Refusal{Reason: tokenserver.BadCredentials, Cause: errors.New(why)}
}

// scopes is a list that is written as one text, divided by blanks (OAuth) or
// commas (the old way), or as a list.
type scopes []string

// UnmarshalJSON implements json.Unmarshaler.
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
