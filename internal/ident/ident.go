// Package ident generates random identifiers and secrets.
package ident

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// New returns 32 lower-case hex digits.
func New() string { return Hex(16) }

// Hex returns n random bytes as 2n lower-case hex digits. It cannot fail: crypto/rand ends the process if the system
// lacks entropy.
func Hex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// ValidRequestID reports whether a client's or proxy's request ID is safe to log: 1 to 64 characters from
// [A-Za-z0-9._-].
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

// NilUUID is the UUID that identifies nothing.
const NilUUID = "00000000-0000-0000-0000-000000000000"

// ParseUUID parses a 36-character UUID in either case and returns it in lower case, as databases do. It returns false
// for anything else, including the nil UUID.
func ParseUUID(s string) (string, bool) {
	if len(s) != len(NilUUID) || s == NilUUID {
		return "", false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case NilUUID[i] == '-':
			if c != '-' {
				return "", false
			}
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return "", false
		}
	}
	return strings.ToLower(s), true
}
