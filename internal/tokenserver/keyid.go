package tokenserver

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// maxClientState is what the column users.client_state holds, in characters.
const maxClientState = 32

// KeyID says under which encryption keys a browser works, from the header
// X-KeyID. The server never sees the keys.
type KeyID struct {
	ChangedAt   Mark   // when the account's keys last changed, in ms by the accounts server's clock
	ClientState string // a hash of the keys, at most 16 bytes, in lower-case hex; may be empty
}

var keyEncoding = base64.RawURLEncoding.Strict()

// ParseKeyID reads "<keys_changed_at>-<base64url of the client state>". The
// first dash divides: base64url may have more. The error is a *Refusal.
func ParseKeyID(s string) (KeyID, error) {
	for i := range len(s) {
		if s[i] > '~' {
			return KeyID{}, &Refusal{Reason: BadKeyID, Detail: "Invalid X-KeyID header"}
		}
	}
	at, state, dashed := strings.Cut(s, "-")
	changed, err := strconv.ParseInt(at, 10, 64)
	if !dashed || err != nil {
		return KeyID{}, &Refusal{Reason: BadCredentials}
	}
	// The decoder passes over line ends, which no header has.
	raw, err := keyEncoding.DecodeString(state)
	if err != nil || hex.EncodedLen(len(raw)) > maxClientState {
		return KeyID{}, &Refusal{Reason: BadCredentials}
	}
	return KeyID{At(changed), hex.EncodeToString(raw)}, nil
}

// String is the id of the keys as storage tokens carry it (fxa_kid). It is
// part of the key under which Spanner keeps a user, so it must come out the
// same as long as the keys are the same.
func (k KeyID) String() string {
	raw, err := hex.DecodeString(k.ClientState)
	if err != nil {
		raw = []byte(k.ClientState) // written by a server that took any text
	}
	return fmt.Sprintf("%013d-%s", k.ChangedAt.Value, keyEncoding.EncodeToString(raw))
}

// ValidClientState reports whether s can be the value of the header
// X-Client-State: 1 to 32 of [a-zA-Z0-9._-].
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
