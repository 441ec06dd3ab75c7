package guest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// Cookies signs session cookies: session ID, key ID, and an HMAC-SHA256 of both, joined by dots. The signature proves
// a session that hot state lost. Cookies is safe for concurrent use.
type Cookies struct {
	keys []cookieKey
}

// cookieKey is a secret with the ID that cookies name.
type cookieKey struct {
	id     string
	secret []byte
}

// MinSecret is the minimum secret length in bytes.
const MinSecret = 32

// MaxCookie is the maximum cookie length in bytes. Longer cookies are not verified.
const MaxCookie = 128

// NewCookies takes the configured secrets, the current one first.
func NewCookies(secret string, old []string) *Cookies {
	c := &Cookies{}
	for _, s := range append([]string{secret}, old...) {
		// The key ID identifies the secret without revealing it.
		id := sha256.Sum256([]byte("guest cookie key\x00" + s))
		sum := sha256.Sum256([]byte("guest cookie secret\x00" + s))
		c.keys = append(c.keys, cookieKey{base64.RawURLEncoding.EncodeToString(id[:6]), sum[:]})
	}
	return c
}

// Sign signs with the current secret.
func (c *Cookies) Sign(session ID) string {
	text := string(session) + "." + c.keys[0].id
	return text + "." + c.keys[0].sum(text)
}

// Verify returns the guest or user session in a validly signed cookie. old means that the cookie must be replaced,
// because it was signed with an old key.
func (c *Cookies) Verify(cookie string) (session ID, old, ok bool) {
	if len(cookie) > MaxCookie {
		return "", false, false
	}
	text, mac := cookie, ""
	if i := strings.LastIndexByte(cookie, '.'); i >= 0 {
		text, mac = cookie[:i], cookie[i+1:]
	}
	id, key, _ := strings.Cut(text, ".")
	for i, k := range c.keys {
		if k.id != key || !hmac.Equal([]byte(k.sum(text)), []byte(mac)) {
			continue
		}
		for _, prefix := range []string{SessionPrefix, UserSessionPrefix} {
			if session, ok = ParseID(prefix, id); ok {
				return session, i > 0, true
			}
		}
	}
	return "", false, false
}

// sum returns the signature in base64url.
func (k *cookieKey) sum(text string) string {
	h := hmac.New(sha256.New, k.secret)
	h.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
