package guest

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// Visitor identifies a guest's browser: personal data that must never be stored, logged or published, only hashed.
type Visitor struct {
	UserAgent      string
	AcceptLanguage string
	IP             string
}

// Hasher computes keyed hashes (HMAC-SHA256) of visitor data: without the secret, addresses and browsers cannot be
// guessed. It is safe for concurrent use.
type Hasher struct{ keys [][]byte } // the first key is used for new hashes

// NewHasher takes the configured secrets, the current one first.
func NewHasher(secret string, old []string) (*Hasher, error) {
	h := &Hasher{}
	for _, s := range append([]string{secret}, old...) {
		key, err := hkdf.Key(sha256.New, []byte(s), nil, "guest hashes", sha256.Size)
		if err != nil {
			return nil, err
		}
		h.keys = append(h.keys, key)
	}
	return h, nil
}

// Fingerprint hashes browser and language, which rarely change during a session.
func (h *Hasher) Fingerprint(v Visitor) []byte { return SumOf(h.keys[0], fingerprint(v)...) }

// UserAgent hashes the browser's name.
func (h *Hasher) UserAgent(v Visitor) []byte { return SumOf(h.keys[0], "user-agent", v.UserAgent) }

// IP hashes the address; for IPv6, its /64 network.
func (h *Hasher) IP(v Visitor) []byte { return SumOf(h.keys[0], "ip", network(v.IP)) }

// IsFingerprint checks sum under all secrets.
func (h *Hasher) IsFingerprint(sum []byte, v Visitor) bool {
	return h.is(sum, fingerprint(v)...)
}

// IsIP checks sum under all secrets.
func (h *Hasher) IsIP(sum []byte, v Visitor) bool { return h.is(sum, "ip", network(v.IP)) }

// is compares in constant time.
func (h *Hasher) is(sum []byte, parts ...string) bool {
	for _, key := range h.keys {
		if hmac.Equal(sum, SumOf(key, parts...)) {
			return true
		}
	}
	return false
}

// anyLanguage means the same as no Accept-Language (RFC 9110, section 12.5.4). Node's fetch adds it to requests that it
// sends for a browser without a language, whose fingerprint must not change by that.
const anyLanguage = "*"

// fingerprint returns the parts of a Fingerprint.
func fingerprint(v Visitor) []string {
	if v.AcceptLanguage == anyLanguage {
		v.AcceptLanguage = ""
	}
	return []string{"fingerprint", v.UserAgent, v.AcceptLanguage}
}

// network returns the canonical address, cut to a /64 for IPv6, since a client may use all of it.
func network(text string) string {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}

// SumOf returns the HMAC of length-prefixed parts, so different lists never collide.
func SumOf(key []byte, parts ...string) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		_, _ = m.Write(binary.AppendUvarint(nil, uint64(len(p))))
		_, _ = m.Write([]byte(p))
	}
	return m.Sum(nil)
}
