// Package ident makes the identifiers and secrets that only have to be
// unguessable: request ids, batch ids, generated keys.
package ident

import (
	"crypto/rand"
	"encoding/hex"
)

// New returns 32 lower-case hex digits: 128 random bits.
func New() string { return Hex(16) }

// Hex returns n random bytes as 2n lower-case hex digits. It is made of the
// system's entropy and does not fail: crypto/rand ends the process rather
// than hand out less.
func Hex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// ValidRequestID reports whether a request id that a client or proxy sent may
// be taken over: 1 to 64 of [A-Za-z0-9._-], so that it can stand in any log.
func ValidRequestID(s string) bool {
	if s == "" || len(s) > 64 {
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
