package bearer

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"holdfast/internal/fault"
)

// The algorithms, as tokens and settings spell them.
const (
	EdDSA = "EdDSA" // Ed25519
	ES256 = "ES256" // ECDSA over P-256 with SHA-256
	HS256 = "HS256" // HMAC with SHA-256
)

// minSecret is the least length of an HS256 secret, in bytes: that of its hash
// (RFC 7518, section 3.2).
const minSecret = 32

// Key is a key as settings have it.
type Key struct {
	ID  string // the kid of tokens; may be empty when there is no other key
	Alg string // EdDSA, ES256 or HS256

	// Text is, for HS256, the secret itself, at least 32 bytes, as they are. For
	// the others it is PEM: PUBLIC KEY, which verifies, or PRIVATE KEY or EC
	// PRIVATE KEY, which also signs.
	Text string
}

// key is a Key that was read.
type key struct {
	id      string
	method  jwt.SigningMethod
	verify  any // ed25519.PublicKey, *ecdsa.PublicKey or the secret as []byte
	private any // what signs: crypto.Signer or the secret; nil when only others can
}

// read takes a Key apart. Its errors, fault.Invalid, quote nothing of the text.
func (k Key) read() (key, error) {
	refused := func(why string) (key, error) {
		return key{}, fault.Newf(fault.Invalid, "bearer key %q: %s", k.ID, why)
	}
	block, _ := pem.Decode([]byte(k.Text))
	switch {
	case k.Alg != EdDSA && k.Alg != ES256 && k.Alg != HS256:
		return refused("the algorithm must be EdDSA, ES256 or HS256")
	case k.Alg == HS256 && (block != nil || strings.Contains(k.Text, "-----BEGIN")):
		return refused("PEM is no secret for HS256: others may know it")
	case k.Alg == HS256 && len(k.Text) < minSecret:
		return refused("a secret for HS256 has at least 32 bytes")
	case k.Alg == HS256:
		return key{id: k.ID, method: jwt.SigningMethodHS256, verify: []byte(k.Text), private: []byte(k.Text)}, nil
	case block == nil:
		return refused("the text is not PEM")
	}
	parsed, err := parse(block)
	if err != nil {
		return refused("the PEM holds no key that can be read")
	}
	out := key{id: k.ID}
	switch p := parsed.(type) {
	case ed25519.PrivateKey:
		out.private, out.verify, out.method = p, p.Public(), jwt.SigningMethodEdDSA
	case ed25519.PublicKey:
		out.verify, out.method = p, jwt.SigningMethodEdDSA
	case *ecdsa.PrivateKey:
		out.private, out.verify, out.method = p, &p.PublicKey, es256(p.Curve)
	case *ecdsa.PublicKey:
		out.verify, out.method = p, es256(p.Curve)
	}
	if out.method == nil || out.method.Alg() != k.Alg {
		return refused("the PEM holds a key of another kind than " + k.Alg)
	}
	return out, nil
}

// es256 is the algorithm of a curve, nil for those that we do not speak.
func es256(c elliptic.Curve) jwt.SigningMethod {
	if c != elliptic.P256() {
		return nil
	}
	return jwt.SigningMethodES256
}

func parse(block *pem.Block) (any, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	}
	return x509.ParsePKCS8PrivateKey(block.Bytes)
}
