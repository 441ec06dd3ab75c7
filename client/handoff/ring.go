package handoff

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"
)

// version begins tokens of this format.
const version = "bh1"

// State is how a key may be used.
type State string

// Key states. To rotate keys, add the new key as VerifyOnly everywhere, then make it Active and the old key
// VerifyOnly, and remove the old key after MaxLife plus the clock difference. Remove a leaked key immediately.
const (
	Active     State = "active" // signs and verifies
	VerifyOnly State = "verify-only"
)

// Key is a key of a ring.
type Key struct {
	ID     string // as in the token format
	Secret []byte // at least 32 random bytes
	State  State

	// NotBefore and NotAfter limit when verifiable tokens were minted. Zero means no limit.
	NotBefore, NotAfter time.Time
}

const minSecret = 32 // bytes

// Ring is a set of keys. It is immutable and safe for concurrent use.
type Ring struct {
	keys   map[string]Key
	active string // ID, or "" if the ring only verifies
}

// NewRing returns a ring with at most one active key.
func NewRing(keys []Key) (*Ring, error) {
	r := &Ring{keys: make(map[string]Key, len(keys))}
	for _, k := range keys {
		switch _, exists := r.keys[k.ID]; {
		case !isKeyID(k.ID):
			return nil, fmt.Errorf("key %.40q: the ID must be 1 to 32 characters of A-Z, a-z, 0-9, \"_\" and \"-\"", k.ID)
		case exists:
			return nil, fmt.Errorf("key %s: the ID is used twice", k.ID)
		case len(k.Secret) < minSecret:
			return nil, fmt.Errorf("key %s: the secret has %d bytes, and must have at least %d", k.ID, len(k.Secret), minSecret)
		case k.State != Active && k.State != VerifyOnly:
			return nil, fmt.Errorf("key %s: unknown state %.20q: expected %s or %s", k.ID, k.State, Active, VerifyOnly)
		case k.State == Active && r.active != "":
			return nil, fmt.Errorf("keys %s and %s are active: only one may be", r.active, k.ID)
		}
		if k.State == Active {
			r.active = k.ID
		}
		r.keys[k.ID] = k
	}
	return r, nil
}

// isKeyID accepts 1 to 32 characters from A-Z, a-z, 0-9, _ and -.
func isKeyID(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 32
}

// Sign and Verify errors.
var (
	ErrNoActiveKey = errors.New("no key is active, so no token can be signed")
	ErrMalformed   = errors.New("not a handoff token")
	ErrUnknownKey  = errors.New("the token is signed with a key that is unknown or no longer valid")
	ErrSignature   = errors.New("the signature of the token is wrong")
	ErrNotYetValid = errors.New("the token was minted in the future; check the clock")
	ErrExpired     = errors.New("the token has expired")
)

// leeway is the maximum clock difference between issuer and verifier.
const leeway = 30 * time.Second

// strict rejects padding, and unused bits that are not zero.
var strict = base64.RawURLEncoding.Strict()

// Sign returns a token and the ID of the signing key.
func (r *Ring) Sign(c Claims) (token, key string, err error) {
	k, ok := r.keys[r.active]
	if !ok {
		return "", "", ErrNoActiveKey
	}
	if err := c.Check(); err != nil {
		return "", "", err
	}
	signed := version + "." + k.ID + "." + strict.EncodeToString(c.encode())
	token = signed + "." + strict.EncodeToString(sum(k.Secret, signed))
	if len(token) > MaxToken {
		return "", "", fmt.Errorf("the token has %d bytes, and may have at most %d", len(token), MaxToken)
	}
	return token, k.ID, nil
}

// KeyID returns the key ID that a token or JWT claims, without verification.
func KeyID(token string) (id string, ok bool) {
	if id, _, _, _, ok = split(token); ok {
		return id, true
	}
	t, err := parseJWT(token)
	return t.key, err == nil
}

// Verify returns the claims and the key ID of a token. If the error is ErrExpired or ErrNotYetValid, the signature is
// valid and Verify also returns the claims.
func (r *Ring) Verify(token string, now time.Time) (c Claims, key string, err error) {
	id, signed, payload, mac, ok := split(token)
	if !ok {
		return c, "", ErrMalformed
	}
	k, ok := r.keys[id]
	if !ok {
		return c, "", ErrUnknownKey
	}
	got, err := decodeBase64(mac)
	if err != nil || len(got) != sha256.Size {
		return c, "", ErrMalformed
	}
	if !hmac.Equal(got, sum(k.Secret, signed)) {
		return c, "", ErrSignature
	}
	text, err := decodeBase64(payload)
	if err != nil {
		return c, "", err
	}
	if c, err = decode(text); err != nil {
		return Claims{}, "", err
	}
	if !k.NotBefore.IsZero() && c.Minted.Before(k.NotBefore) || !k.NotAfter.IsZero() && c.Minted.After(k.NotAfter) {
		return Claims{}, "", ErrUnknownKey
	}
	return c, id, c.checkTimes(now)
}

// sum returns an HMAC-SHA256.
func sum(secret []byte, text string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// decodeBase64 accepts only the output of EncodeToString, because the standard decoder ignores line breaks.
func decodeBase64(s string) ([]byte, error) {
	b, err := strict.DecodeString(s)
	if err != nil || len(s) != strict.EncodedLen(len(b)) {
		return nil, ErrMalformed
	}
	return b, nil
}
