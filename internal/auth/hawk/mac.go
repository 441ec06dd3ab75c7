package hawk

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/clock"
)

// Request is the part of a request that every signature covers.
type Request struct {
	Method string
	// Target is the raw path and query. Re-encoding would break clients that escape differently (`%7B` for `{`).
	Target string
	// Host is part of the public address to which the client connects. IPv6 literals have no brackets, as Firefox
	// signs them.
	Host string
	Port uint16
}

// Sign returns h with its MAC. key is the text that tokenlib derives.
func (h Header) Sign(key string, r Request) Header {
	mac := h.mac(key, r)
	h.MAC = string(mac[:])
	return h
}

// Verify checks the MAC, then that h.TS is within skew of now. The errors are ErrMAC and ErrSkew.
//
// The MAC does not cover the body: if h.Hash is set, read it through Body.
func (h Header) Verify(key string, r Request, now time.Time, skew time.Duration) error {
	want := h.mac(key, r)
	if subtle.ConstantTimeCompare(want[:], []byte(h.MAC)) != 1 {
		return ErrMAC
	}
	if ahead := time.Unix(h.TS, 0).Sub(now); ahead.Abs() > skew {
		return fmt.Errorf("%w: %s", ErrSkew, clock.Offset(ahead))
	}
	return nil
}

// mac returns the base64 MAC over the normalized request (Hawk, "Generating the normalized request string").
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
