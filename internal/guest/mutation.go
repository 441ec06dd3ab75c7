package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"holdfast/internal/errcode"
)

// Mutation identifies a request that takes effect only once.
type Mutation struct {
	Session ID
	Route   string   // method and path template
	Key     string   // client's idempotency key: 1 to 255 printable ASCII characters
	Digest  [32]byte // web.Fingerprint of the request
	Trace   Trace    // goes to events
	Profile *Profile // nil: Hotel; shared, so nobody changes it

	Guard Guard // condition for a wishlist change; the zero value always holds

	Denied error // refuses the request unless it is a repeat; nil: allowed

	Sealer Sealer // encrypts the stored answer; nil: plain text
}

// Sealer encrypts stored answers, bound to their composite key. It is safe for concurrent use.
type Sealer interface {
	// Seal returns the encrypted body, and does not change its argument. key is the composite key.
	Seal(body []byte, key string) []byte

	// Unseal reverses Seal. A body that was sealed with another key or for another composite key is an error.
	Unseal(body []byte, key string) ([]byte, error)
}

// MutationLife is how long answers are kept.
const MutationLife = 24 * time.Hour

// CompositeKey identifies the mutation in databases, as 64 hexadecimal digits. It is unambiguous: session IDs have a
// fixed length and routes are constants.
func (m *Mutation) CompositeKey() string {
	sum := sha256.Sum256([]byte(string(m.Session) + "|" + m.Route + "|" + m.Key))
	return hex.EncodeToString(sum[:])
}

// seal encrypts a body if there is a Sealer.
func (m *Mutation) seal(body []byte) []byte {
	if m.Sealer == nil {
		return body
	}
	return m.Sealer.Seal(body, m.CompositeKey())
}

// unseal reverses seal.
func (m *Mutation) unseal(body []byte) ([]byte, error) {
	if m.Sealer == nil {
		return body, nil
	}
	return m.Sealer.Unseal(body, m.CompositeKey())
}

// CheckKey accepts 1 to 255 printable ASCII characters.
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

// Idempotency key errors.
var (
	ErrKey       = BadHeader("expected 1 to 255 printable ASCII characters", "Idempotency-Key")
	ErrKeyReused = BadHeader("the key was used for another request", "Idempotency-Key")
	ErrInFlight  = errcode.New(errcode.Conflict, "another request of this session is in progress: retry later")
)
