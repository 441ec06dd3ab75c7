// Package secretbox encrypts short secrets for storage in a database.
package secretbox

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
)

// Box encrypts with AES-256-GCM under keys derived from configured secrets. It is safe for concurrent use.
type Box struct {
	ciphers []cipher.AEAD // the first cipher encrypts
}

// New returns a box that encrypts with current, and also decrypts with former secrets. label separates uses of a
// secret.
func New(label, current string, former ...string) (*Box, error) {
	b := &Box{}
	for _, s := range append([]string{current}, former...) {
		key, err := hkdf.Key(sha256.New, []byte(s), nil, label, 32)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		b.ciphers = append(b.ciphers, aead)
	}
	return b, nil
}

// Seal binds the text to id, e.g. its row's ID.
func (b *Box) Seal(text []byte, id string) []byte {
	return b.ciphers[0].Seal(nil, nil, text, []byte(id)) //nolint:gosec // the cipher makes a random nonce
}

// Open returns false for another secret, label or id, or for damaged data.
func (b *Box) Open(sealed []byte, id string) (text []byte, ok bool) {
	for _, c := range b.ciphers {
		if text, err := c.Open(nil, nil, sealed, []byte(id)); err == nil {
			return text, true
		}
	}
	return nil, false
}
