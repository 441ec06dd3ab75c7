package tokenserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// hashedIDs returns account and device IDs for metrics: HMACs with fxa_metrics_hash_secret, as 32 hex digits.
func hashedIDs(secret, fxaUID string) (uid, device string) {
	uid = shortMAC(secret, fxaUID)
	return uid, shortMAC(secret, uid+"none")
}

// shortMAC returns half of an HMAC-SHA256 in hex.
func shortMAC(secret, text string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))[:32]
}
