package hawk

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"strconv"
	"strings"
	"time"
)

// Request is the part of a request that every Hawk signature covers.
type Request struct {
	Method string
	// Target is path and query, byte for byte as they stood in the request line:
	// re-encoding would break the MAC of every client that escapes otherwise
	// than we do (`%7B` for `{`).
	Target string
	// Host and Port are where the client believes to be talking to, of the
	// public address. An IPv6 literal stands without brackets, as Firefox signs it.
	Host string
	Port uint16
}

// Sign returns h with the MAC over h and r under the key.
func (h Header) Sign(key string, r Request) Header {
	mac := h.mac(key, r)
	h.MAC = string(mac[:])
	return h
}

// Verify checks the MAC over h and r under the key, and then that the client's
// clock is at most skew away from now, either way. The errors are ErrMAC and
// ErrSkew. The comparison takes the same time whatever the MAC.
//
// A body is not covered: when h.Hash is set, read the body through Body.
func (h Header) Verify(key string, r Request, now time.Time, skew time.Duration) error {
	want := h.mac(key, r)
	if subtle.ConstantTimeCompare(want[:], []byte(h.MAC)) != 1 {
		return ErrMAC
	}
	if now.Sub(time.Unix(h.TS, 0)).Abs() > skew {
		return ErrSkew
	}
	return nil
}

// mac is the base64 of the HMAC over the canonical text of h and r.
func (h Header) mac(key string, r Request) [44]byte {
	text := make([]byte, 0, 64+len(h.Nonce)+len(r.Method)+len(r.Target)+len(r.Host)+len(h.Hash)+len(h.Ext))
	text = append(text, "hawk.1.header\n"...)
	text = strconv.AppendInt(text, h.TS, 10)
	text = append(text, '\n')
	for _, line := range [...]string{h.Nonce, strings.ToUpper(r.Method), r.Target, strings.ToLower(r.Host)} {
		text = append(text, line...)
		text = append(text, '\n')
	}
	text = strconv.AppendUint(text, uint64(r.Port), 10)
	text = append(text, '\n')
	for _, line := range [...]string{h.Hash, h.Ext} {
		text = append(text, line...)
		text = append(text, '\n')
	}

	m := hmac.New(sha256.New, []byte(key))
	m.Write(text)
	return digest(m.Sum(nil))
}

func digest(sum []byte) (text [44]byte) {
	digestEncoding.Encode(text[:], sum)
	return text
}
