// Package secrethash makes salted hashes by which a database detects a lost or replaced secret.
//
// Generated secrets (256 bits) get a fast hash. Others get a slow hash, which protects weak secrets from readers of a
// database or backup.
package secrethash

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"

	"holdfast/internal/errcode"
)

// cost takes about 10 ms and 4 MB on a server, more on a small board. Each start hashes every secret that was not
// generated.
var cost = params{memory: 4 << 10, passes: 3}

// Limits for stored parameters: a database writer must not keep a server computing for minutes.
const (
	mostMemory = 64 << 10
	mostPasses = 16
	saltSize   = 16
	keySize    = 32
)

// params are Argon2id parameters. The zero value means HMAC-SHA256.
type params struct {
	memory uint32 // KiB
	passes uint32
}

// New hashes a secret in PHC string format.
func New(secret string) string {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt)
	if isGenerated(secret) {
		return "$hmac-sha256$$$" + base64.RawStdEncoding.EncodeToString(salt) + "$" + base64.RawStdEncoding.EncodeToString(params{}.key(secret, salt))
	}
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, cost.memory, cost.passes,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(cost.key(secret, salt)))
}

// isGenerated detects 32 random bytes in hexadecimal, as made by the server and `openssl rand -hex 32`, by checking
// that more than half of the digits occur. Fewer than one in 10^15 random secrets fail this check.
func isGenerated(secret string) bool {
	var digits [16]bool
	distinct := 0
	for i := range len(secret) {
		d := strings.IndexByte("0123456789abcdef", secret[i])
		if d < 0 {
			return false
		}
		if !digits[d] {
			digits[d] = true
			distinct++
		}
	}
	return len(secret) == 2*keySize && distinct > 8
}

// key derives the key from a secret.
func (p params) key(secret string, salt []byte) []byte {
	if p == (params{}) {
		h := hmac.New(sha256.New, salt)
		h.Write([]byte(secret))
		return h.Sum(nil)
	}
	return argon2.IDKey([]byte(secret), salt, p.passes, p.memory, 1, keySize)
}

// Hash is a parsed hash; see Parse.
type Hash struct {
	params
	salt, key []byte
}

var errFormat = errcode.New(errcode.Internal, "unknown format of a secret hash: run the release that made it")

// Parse parses a hash from New with any cost.
func Parse(text string) (h Hash, err error) {
	fields := strings.Split(text, "$")
	if len(fields) != 6 || fields[0] != "" {
		return h, errFormat
	}
	switch version := fields[2]; {
	case fields[1] == "hmac-sha256" && version == "" && fields[3] == "":
	case fields[1] == "argon2id" && version == fmt.Sprintf("v=%d", argon2.Version):
		if n, err := fmt.Sscanf(fields[3], "m=%d,t=%d,p=1", &h.memory, &h.passes); err != nil || n != 2 {
			return h, errFormat
		}
		if h.memory < 8 || h.memory > mostMemory || h.passes < 1 || h.passes > mostPasses {
			return h, errFormat
		}
	default:
		return h, errFormat
	}
	var saltErr, keyErr error
	h.salt, saltErr = base64.RawStdEncoding.DecodeString(fields[4])
	h.key, keyErr = base64.RawStdEncoding.DecodeString(fields[5])
	if saltErr != nil || keyErr != nil || len(h.salt) != saltSize || len(h.key) != keySize {
		return h, errFormat
	}
	return h, nil
}

// Matches reports whether the hash was made from the secret, in time that does not depend on it.
func (h Hash) Matches(secret string) bool {
	return subtle.ConstantTimeCompare(h.params.key(secret, h.salt), h.key) == 1
}
