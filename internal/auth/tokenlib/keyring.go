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

	"holdfast/internal/fault"
)

const (
	infoSigning = "services.mozilla.com/tokenlib/v1/signing"
	infoDerive  = "services.mozilla.com/tokenlib/v1/derive/"

	maxToken  = 2048 // bytes of text; what package hawk takes as an id
	saltBytes = 3
)

// Strict, so that each token has one spelling only.
var encoding = base64.URLEncoding.Strict()

// Keyring makes and opens tokens with the master secrets of a server. It is
// safe for concurrent use.
type Keyring struct {
	secrets []secret

	// opened remembers good tokens: a client sends the same one with every
	// request of an hour, and opening it costs more than the rest of the
	// request's authentication.
	opened *lru.Cache[string, opened]
}

// opened is a token whose signature was found good. What it says does not
// change, except that it expires.
type opened struct {
	claims Claims
	key    string
}

// maxOpened is how many tokens are remembered, of about a kilobyte each.
const maxOpened = 4096

type secret struct {
	master  []byte // the secret's text as it is, also when it looks like hex
	signing []byte
}

// NewKeyring takes the master secrets, none of them empty. The first makes
// tokens, all open them: to change a secret without a moment of 401s, put the new
// one last everywhere, then first everywhere, then drop the old one.
func NewKeyring(masters ...string) (*Keyring, error) {
	if len(masters) == 0 {
		return nil, fault.New(fault.Invalid, "at least one master secret is required")
	}
	remembered, err := lru.New[string, opened](maxOpened)
	if err != nil {
		return nil, fmt.Errorf("make room for tokens: %w", err)
	}
	k := &Keyring{opened: remembered}
	for _, m := range masters {
		if m == "" {
			return nil, fault.New(fault.Invalid, "a master secret must not be empty")
		}
		signing, err := hkdf.Key(sha256.New, []byte(m), nil, infoSigning, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("derive the signing key: %w", err)
		}
		k.secrets = append(k.secrets, secret{[]byte(m), signing})
	}
	return k, nil
}

// Format keeps the secrets out of logs, whatever the verb.
func (k *Keyring) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "tokenlib.Keyring(%d secrets)", len(k.secrets))
}

// Mint makes a token and the Hawk key that belongs to it. A random salt is
// chosen when c has none; Expires is cut to the second. The error is
// ErrMalformed when c is not what Open would give back.
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

// Open checks the token's signature and returns its claims and its Hawk key. The
// errors are ErrMalformed, ErrSignature and ErrExpired (Expires is not after
// now). Only with ErrExpired are claims and key returned too, for the one route
// that serves the holders of expired tokens.
func (k *Keyring) Open(token string, now time.Time) (c Claims, key string, err error) {
	o, known := k.opened.Get(token)
	if !known {
		if o, err = k.open(token); err != nil {
			return Claims{}, "", err
		}
		k.opened.Add(strings.Clone(token), o) // it may be part of a whole header
	}
	if !o.claims.Expires.After(now) {
		return o.claims, o.key, ErrExpired
	}
	return o.claims, o.key, nil
}

// open is Open for a token that is not remembered, whenever it expires.
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

// verify returns the signed part of the token and the secret that signed it.
func (k *Keyring) verify(token string) ([]byte, secret, error) {
	// The decoder passes over line ends, which would give a token a second spelling.
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

// derive gives the Hawk key of a token. The key is the base64 text itself: the
// HMAC of a request is keyed by these 44 bytes, not by what they decode to.
func (s secret) derive(token, salt string) (string, error) {
	key, err := hkdf.Key(sha256.New, s.master, []byte(salt), infoDerive+token, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive the Hawk key: %w", err)
	}
	return encoding.EncodeToString(key), nil
}
