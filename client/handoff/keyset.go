package handoff

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
)

// KeySet is a set of public keys from a JWK Set (RFC 7517, RFC 8037). It is immutable and safe for concurrent use.
type KeySet struct{ keys map[string]ed25519.PublicKey }

// JWK Set limits.
const (
	MaxKeySet = 64 << 10 // bytes

	maxKeys = 100
)

// jwk is a key in a JWK Set.
type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	X         string `json:"x"`
}

// FormatKeySet returns the signers' public keys as a JWK Set.
func FormatKeySet(signers []*Signer) ([]byte, error) {
	set := struct {
		Keys []jwk `json:"keys"`
	}{[]jwk{}}
	for _, s := range signers {
		set.Keys = append(set.Keys, jwk{"OKP", "Ed25519", s.id, "sig", jwtAlgorithm, strict.EncodeToString(s.public())})
	}
	return json.Marshal(set)
}

// ParseKeySet parses a JWK Set. It ignores keys with other types, curves, uses or algorithms, because these do not
// verify handoffs.
func ParseKeySet(text []byte) (*KeySet, error) {
	if len(text) > MaxKeySet {
		return nil, fmt.Errorf("the key set has more than %d bytes", MaxKeySet)
	}
	var in struct {
		Keys *[]map[string]any `json:"keys"`
	}
	if json.Unmarshal(text, &in) != nil || in.Keys == nil {
		return nil, errors.New("not a JWK Set: expected an object with the array keys")
	}
	if len(*in.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys, and may have at most %d", len(*in.Keys), maxKeys)
	}
	s := &KeySet{make(map[string]ed25519.PublicKey, len(*in.Keys))}
	for _, k := range *in.Keys {
		if err := s.add(k); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// add takes a key of the set, or ignores it if it is for another use.
func (s *KeySet) add(k map[string]any) error {
	if _, private := k["d"]; private {
		return errors.New("the key set has a private key: revoke it")
	}
	for member, want := range map[string]string{"use": "sig", "alg": jwtAlgorithm} {
		if have, exists := k[member]; exists && have != want {
			return nil
		}
	}
	if k["kty"] != "OKP" || k["crv"] != "Ed25519" {
		return nil
	}
	id, _ := k["kid"].(string)
	x, _ := k["x"].(string)
	key, err := decodeBase64(x)
	switch {
	case !isKeyID(id):
		return errors.New("a key of the key set has no valid kid")
	case err != nil || len(key) != ed25519.PublicKeySize:
		return fmt.Errorf("key %s: x is not an Ed25519 public key", id)
	case s.has(id):
		return fmt.Errorf("key %s is in the key set twice", id)
	}
	s.keys[id] = key
	return nil
}

// has reports whether the set has a key with this ID.
func (s *KeySet) has(id string) bool {
	_, ok := s.keys[id]
	return ok
}

// Verify returns the claims and the key ID of a JWT. If the error is ErrExpired or ErrNotYetValid, the signature is
// valid and Verify also returns the claims.
func (s *KeySet) Verify(token string, e Expected) (c Claims, key string, err error) {
	t, err := parseJWT(token)
	if err != nil {
		return c, "", err
	}
	public, ok := s.keys[t.key]
	if !ok {
		return c, "", ErrUnknownKey
	}
	c, err = t.verify(public, e)
	return c, t.key, err
}
