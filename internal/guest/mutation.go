package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"holdfast/internal/errcode"
)

// Mutation identifies a request that changes something, so that it happens once. It is a part of
// each request of a step.
type Mutation struct {
	Session ID
	Route   string   // method and path template, a constant of the server
	Key     string   // of the client: 1 to 255 printable ASCII characters
	Digest  [32]byte // of everything that the request says
	Trace   Trace    // of the request, for its events
	Profile *Profile // for its events and its rules

	Denied error // refuses the request unless it was done before; nil: it is allowed

	Sealer Sealer // encrypts the stored answer; nil: it is not encrypted
}

// Sealer encrypts the bodies of stored answers, each for the composite key that it is stored under.
type Sealer interface {
	Seal(body []byte, key string) []byte

	// Unseal decrypts a body. It returns a body that an earlier release has not encrypted.
	Unseal(body []byte, key string) ([]byte, error)
}

// MutationLife is how long the answer of a mutation is kept.
const MutationLife = 24 * time.Hour

// CompositeKey identifies the mutation in databases: 64 hexadecimal digits. The session
// has a fixed length and routes are constants, so different mutations have different keys.
func (m *Mutation) CompositeKey() string {
	sum := sha256.Sum256([]byte(string(m.Session) + "|" + m.Route + "|" + m.Key))
	return hex.EncodeToString(sum[:])
}

// seal encrypts the body of the mutation's answer if it has a Sealer.
func (m *Mutation) seal(body []byte) []byte {
	if m.Sealer == nil {
		return body
	}
	return m.Sealer.Seal(body, m.CompositeKey())
}

// unseal is the reverse of seal.
func (m *Mutation) unseal(body []byte) ([]byte, error) {
	if m.Sealer == nil {
		return body, nil
	}
	return m.Sealer.Unseal(body, m.CompositeKey())
}

// CheckKey rejects idempotency keys that are not 1 to 255 printable ASCII characters.
func CheckKey(key string) error {
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return ErrKey
		}
	}
	if key == "" || len(key) > 255 {
		return ErrKey
	}
	return nil
}

// Errors of idempotency keys.
var (
	ErrKey       = BadHeader("expected 1 to 255 printable ASCII characters", "Idempotency-Key")
	ErrKeyReused = BadHeader("the key was used for another request", "Idempotency-Key")
	ErrInFlight  = errcode.New(errcode.Conflict, "another request of this session is in progress: retry later")
)
