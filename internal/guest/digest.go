package guest

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// Visitor is what a request says about the guest's browser. It identifies a person, so it
// is never stored, logged or published: only its keyed hashes are.
type Visitor struct {
	UserAgent      string
	AcceptLanguage string
	IP             string // "": not known
}

// Hasher makes keyed hashes (HMAC-SHA256) of what identifies a guest's browser. Without the
// secret nobody can find out by trying which address or browser a hash is of. It is safe
// for concurrent use.
type Hasher struct{ keys [][]byte } // the first one is used for new hashes

// NewHasher returns a hasher with the secrets of the configuration, the current one first.
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

// Fingerprint returns the hash of the browser.
func (h *Hasher) Fingerprint(v Visitor) []byte { return SumOf(h.keys[0], fingerprint(v)...) }

// UserAgent returns the hash of the User-Agent.
func (h *Hasher) UserAgent(v Visitor) []byte { return SumOf(h.keys[0], "user-agent", v.UserAgent) }

// IP returns the hash of the address, of IPv6 that of its /64 network.
func (h *Hasher) IP(v Visitor) []byte { return SumOf(h.keys[0], "ip", network(v.IP)) }

// IsFingerprint reports whether a hash is that of the browser, with any of the secrets.
func (h *Hasher) IsFingerprint(sum []byte, v Visitor) bool { return h.is(sum, fingerprint(v)...) }

// IsIP reports whether a hash is that of the address, with any of the secrets.
func (h *Hasher) IsIP(sum []byte, v Visitor) bool { return h.is(sum, "ip", network(v.IP)) }

func (h *Hasher) is(sum []byte, parts ...string) bool {
	for _, key := range h.keys {
		if hmac.Equal(sum, SumOf(key, parts...)) {
			return true
		}
	}
	return false
}

func fingerprint(v Visitor) []string { return []string{"fingerprint", v.UserAgent, v.AcceptLanguage} }

// network returns the address in its only spelling. A client with IPv6 may have every
// address of its /64 network.
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

// SumOf returns the HMAC of parts, each with its length, so that no other parts have it.
func SumOf(key []byte, parts ...string) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		_, _ = m.Write(binary.AppendUvarint(nil, uint64(len(p))))
		_, _ = m.Write([]byte(p))
	}
	return m.Sum(nil)
}
