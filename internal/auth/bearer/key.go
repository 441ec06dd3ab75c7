package bearer

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"holdfast/internal/errcode"
)

// Algorithms are spelled as in tokens and settings.
const (
	EdDSA = "EdDSA"
	ES256 = "ES256"
	HS256 = "HS256"
)

var algorithms = []jose.SignatureAlgorithm{EdDSA, ES256, HS256}

// minSecret is the length of an HS256 hash in bytes (RFC 7518, section 3.2).
const minSecret = 32

// Key is a configured key.
type Key struct {
	ID  string // tokens' kid; may be empty if there is a single key
	Alg string // EdDSA, ES256 or HS256

	// Text is the HS256 secret, at least 32 bytes, not decoded. Other algorithms use PEM: PUBLIC KEY only verifies;
	// PRIVATE KEY and EC PRIVATE KEY also sign.
	Text string
}

type key struct {
	id     string
	alg    jose.SignatureAlgorithm
	verify any         // ed25519.PublicKey, *ecdsa.PublicKey or the secret as []byte
	signer jose.Signer // nil for a public key
}

// read parses the key. Its errors are errcode.Invalid and do not contain Text.
func (k Key) read() (key, error) {
	refused := func(why string) (key, error) {
		return key{}, errcode.Newf(errcode.Invalid, "bearer key %q: %s", k.ID, why)
	}
	block, _ := pem.Decode([]byte(k.Text))
	switch {
	case k.Alg != EdDSA && k.Alg != ES256 && k.Alg != HS256:
		return refused("alg must be EdDSA, ES256 or HS256")
	case k.Alg == HS256 && (block != nil || strings.Contains(k.Text, "-----BEGIN")):
		return refused("HS256 needs a secret, not a key in PEM, which may be public")
	case k.Alg == HS256 && len(k.Text) < minSecret:
		return refused("a secret for HS256 must have at least 32 bytes")
	case k.Alg == HS256:
		return key{id: k.ID, alg: HS256, verify: []byte(k.Text)}.withSigner([]byte(k.Text))
	case block == nil:
		return refused("the key must be in PEM")
	}
	parsed, err := parse(block)
	if err != nil {
		return refused("the PEM block does not contain a valid key")
	}
	out := key{id: k.ID}
	var private any
	switch p := parsed.(type) {
	case ed25519.PrivateKey:
		private, out.verify, out.alg = p, p.Public(), EdDSA
	case ed25519.PublicKey:
		out.verify, out.alg = p, EdDSA
	case *ecdsa.PrivateKey:
		private, out.verify, out.alg = p, &p.PublicKey, algorithmOf(p.Curve)
	case *ecdsa.PublicKey:
		out.verify, out.alg = p, algorithmOf(p.Curve)
	}
	if string(out.alg) != k.Alg {
		return refused("the PEM block does not contain a key for " + k.Alg)
	}
	if private == nil {
		return out, nil
	}
	return out.withSigner(private)
}

// withSigner lets the key sign, too.
func (k key) withSigner(private any) (key, error) {
	header := new(jose.SignerOptions).WithType("JWT")
	if k.id != "" {
		header = header.WithHeader("kid", k.id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.alg, Key: private}, header)
	if err != nil {
		return key{}, errcode.Newf(errcode.Invalid, "bearer key %q: cannot sign with this key", k.id)
	}
	k.signer = signer
	return k, nil
}

func algorithmOf(c elliptic.Curve) jose.SignatureAlgorithm {
	if c != elliptic.P256() {
		return ""
	}
	return ES256
}

// parse reads a PEM block.
func parse(block *pem.Block) (any, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	}
	return x509.ParsePKCS8PrivateKey(block.Bytes)
}

// DerivedKeys derives a key from each secret and name. The secrets may have other uses.
func DerivedKeys(secrets []string, name string) (keys []Key, err error) {
	for i, secret := range secrets {
		if slices.Contains(secrets[:i], secret) {
			continue
		}
		id, err1 := hkdf.Key(sha256.New, []byte(secret), nil, name+" token key ID", 8)
		key, err2 := hkdf.Key(sha256.New, []byte(secret), nil, name+" tokens", sha256.Size)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		keys = append(keys, Key{ID: hex.EncodeToString(id), Alg: HS256, Text: hex.EncodeToString(key)})
	}
	return keys, nil
}
