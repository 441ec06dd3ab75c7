package tokenserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// hashedIDs are what an account and its device are called in metrics: HMACs
// under the setting fxa_metrics_hash_secret, cut to 32 hex digits. There is no
// device id in a sign-in any more; clients expect the hash of none.
func hashedIDs(secret, fxaUID string) (uid, device string) {
	uid = shortMAC(secret, fxaUID)
	return uid, shortMAC(secret, uid+"none")
}

func shortMAC(secret, text string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))[:32]
}
