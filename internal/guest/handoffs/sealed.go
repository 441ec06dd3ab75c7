package handoffs

import "holdfast/internal/errcode"

// MintRoute is the route whose answers contain tokens. The answers are encrypted in the database and in Redis, so
// that nobody with access to either or to a backup can consume a handoff.
const MintRoute = "POST /handoff/{tenantId}/{propertyId}"

// sealedMark is the first byte of an encrypted body, for changes of the encryption.
const sealedMark = 1

var errSealed = errcode.New(errcode.Internal, "a stored answer was encrypted with another guest.handoff_secret: restore it, or add it to guest.old_handoff_secrets")

// Seal implements guest.Sealer.
func (k *Keys) Seal(body []byte, key string) []byte {
	return append([]byte{sealedMark}, k.answers.Seal(body, key)...)
}

// Unseal implements guest.Sealer.
func (k *Keys) Unseal(body []byte, key string) ([]byte, error) {
	if len(body) == 0 || body[0] != sealedMark {
		return nil, errSealed
	}
	plain, ok := k.answers.Open(body[1:], key)
	if !ok {
		return nil, errSealed
	}
	return plain, nil
}
