package tokenlib

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"holdfast/internal/errcode"
)

const (
	// These are the HKDF contexts of Mozilla's tokenlib.
	infoSigning = "services.mozilla.com/tokenlib/v1/signing"
	infoDerive  = "services.mozilla.com/tokenlib/v1/derive/"

	maxToken  = 2048 // bytes; the maximum ID length in package hawk
	saltBytes = 3
)

// encoding is strict, so that a token has only one spelling.
var encoding = base64.URLEncoding.Strict()

// Keyring makes and verifies tokens with a server's master secrets. It is safe for concurrent use.
type Keyring struct {
	secrets []secret

	// cache holds verified tokens, because a client sends the same token with every request for an hour, and verifying it
	// costs more than the rest of the authentication.
	cache *lru.Cache[string, opened]
}

type opened struct {
	claims Claims
	key    string
}

// maxOpened is the number of cached tokens.
const maxOpened = 4096

type secret struct {
	master  []byte // the text, not decoded even if it is hexadecimal
	signing []byte
}

// NewKeyring returns a keyring that makes tokens with the first master secret and verifies with all. To rotate
// without 401s, add the new secret last on every server, then move it first on every server, then remove the old
// secret. NewKeyring returns errcode.Invalid for an empty list or an empty secret.
func NewKeyring(masters ...string) (*Keyring, error) {
	if len(masters) == 0 {
		return nil, errcode.New(errcode.Invalid, "at least one master secret is required")
	}
	cache, err := lru.New[string, opened](maxOpened)
	if err != nil {
		return nil, fmt.Errorf("create the token cache: %w", err)
	}
	k := &Keyring{cache: cache}
	for _, m := range masters {
		if m == "" {
			return nil, errcode.New(errcode.Invalid, "a master secret must not be empty")
		}
		signing, err := hkdf.Key(sha256.New, []byte(m), nil, infoSigning, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("derive the signing key: %w", err)
		}
		k.secrets = append(k.secrets, secret{[]byte(m), signing})
	}
	return k, nil
}

// Format keeps the secrets out of logs with every verb.
func (k *Keyring) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "tokenlib.Keyring(%d secrets)", len(k.secrets))
}

// Mint returns a token and its Hawk key. It adds a random salt if c has no salt, and truncates Expires to seconds. It
// returns ErrMalformed for claims that Open would reject.
func (k *Keyring) Mint(c Claims) (token, key string, err error) {
	if c.Salt == "" {
		var salt [saltBytes]byte
		rand.Read(salt[:])
		c.Salt = hex.EncodeToString(salt[:])
	}
	payload, err := c.encode()
	if err != nil {
		return "", "", err
	}
	first := k.secrets[0]
	token = encoding.EncodeToString(append(payload, sign(first.signing, payload)...))
	if len(token) > maxToken {
		return "", "", fmt.Errorf("%w: longer than %d bytes", ErrMalformed, maxToken)
	}
	key, err = first.derive(token, c.Salt)
	return token, key, err
}

// Open verifies a token and returns its claims and Hawk key. The errors are ErrMalformed, ErrSignature and, if
// Expires is not after now, ErrExpired. With ErrExpired it still returns claims and key, for the route that accepts
// expired tokens.
func (k *Keyring) Open(token string, now time.Time) (c Claims, key string, err error) {
	o, known := k.cache.Get(token)
	if !known {
		if o, err = k.open(token); err != nil {
			return Claims{}, "", err
		}
		k.cache.Add(strings.Clone(token), o) // token may be part of a header
	}
	if !o.claims.Expires.After(now) {
		return o.claims, o.key, fmt.Errorf("%w at %s", ErrExpired, o.claims.Expires.UTC().Format(time.RFC3339))
	}
	return o.claims, o.key, nil
}

// open verifies a token without regard to the time.
func (k *Keyring) open(token string) (o opened, err error) {
	payload, by, err := k.verify(token)
	if err != nil {
		return opened{}, err
	}
	if o.claims, err = decodeClaims(payload); err != nil {
		return opened{}, err
	}
	o.key, err = by.derive(token, o.claims.Salt)
	return o, err
}

// verify returns the claims, and the master secret that signed them.
func (k *Keyring) verify(token string) ([]byte, secret, error) {
	// The decoder skips line breaks, which would give a token a second spelling.
	if len(token) > maxToken || strings.ContainsAny(token, "\r\n") {
		return nil, secret{}, fmt.Errorf("%w: too long, or with line breaks", ErrMalformed)
	}
	raw, err := encoding.DecodeString(token)
	if err != nil || len(raw) <= sha256.Size {
		return nil, secret{}, fmt.Errorf("%w: expected base64url of claims and signature", ErrMalformed)
	}
	payload, signature := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	for _, s := range k.secrets {
		if hmac.Equal(signature, sign(s.signing, payload)) {
			return payload, s, nil
		}
	}
	return nil, secret{}, ErrSignature
}

func sign(key, payload []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(payload)
	return m.Sum(nil)
}

// derive returns a token's Hawk key: the base64 text itself. Its 44 bytes are the key of the HMAC, without decoding.
func (s secret) derive(token, salt string) (string, error) {
	key, err := hkdf.Key(sha256.New, s.master, []byte(salt), infoDerive+token, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive the Hawk key: %w", err)
	}
	return encoding.EncodeToString(key), nil
}
