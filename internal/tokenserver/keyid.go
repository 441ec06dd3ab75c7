package tokenserver

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const maxClientState = 32 // characters

// KeyID identifies a browser's encryption keys, from X-KeyID. The server never gets the keys.
type KeyID struct {
	ChangedAt   Mark   // in ms by the accounts server's clock
	ClientState string // hash of the keys, at most 16 bytes in lower-case hex; may be empty
}

var keyEncoding = base64.RawURLEncoding.Strict()

var (
	errKeyTime  = errors.New("X-KeyID does not begin with a time and a dash")
	errKeyState = errors.New("X-KeyID does not end with at most 16 bytes in base64url")
)

// ParseKeyID parses "<keys_changed_at>-<base64url of the client state>". It splits at the first dash, because
// base64url may contain more. The error is a *Refusal.
func ParseKeyID(s string) (KeyID, error) {
	for i := range len(s) {
		if s[i] > '~' {
			return KeyID{}, &Refusal{Reason: BadKeyID, Detail: "Invalid X-KeyID header"}
		}
	}
	at, state, dashed := strings.Cut(s, "-")
	changed, err := strconv.ParseInt(at, 10, 64)
	if !dashed || err != nil {
		return KeyID{}, &Refusal{Reason: BadCredentials, Cause: errKeyTime}
	}
	// The decoder skips line breaks, which headers cannot contain.
	raw, err := keyEncoding.DecodeString(state)
	if err != nil || hex.EncodedLen(len(raw)) > maxClientState {
		return KeyID{}, &Refusal{Reason: BadCredentials, Cause: errKeyState}
	}
	return KeyID{At(changed), hex.EncodeToString(raw)}, nil
}

// String returns the fxa_kid in storage tokens. On Spanner it is part of the user's primary key, so equal keys must
// return equal strings.
func (k KeyID) String() string {
	raw, err := hex.DecodeString(k.ClientState)
	if err != nil {
		raw = []byte(k.ClientState) // from a server that accepted any text
	}
	return fmt.Sprintf("%013d-%s", k.ChangedAt.Value, keyEncoding.EncodeToString(raw))
}

// ValidClientState accepts 1 to 32 characters from [a-zA-Z0-9._-].
func ValidClientState(s string) bool {
	if s == "" || len(s) > maxClientState {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
