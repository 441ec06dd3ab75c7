package extstorage

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

var errCursor = refuse("must be a cursor from an earlier response to the same request")

// encoding is strict about trailing bits, so that a cursor has only one spelling.
var encoding = base64.RawURLEncoding.Strict()

// sealer signs cursors: opaque positions bound to a query. The first key signs; cursors signed with any key are
// accepted.
type sealer struct{ keys [][]byte }

// seal returns a cursor for a position. question names the request that may use it: its kind, the owner and all
// parameters that must stay equal on the next page.
func (s sealer) seal(position string, question ...string) string {
	return encoding.EncodeToString(append(sign(s.keys[0], position, question), position...))
}

// open returns the position, or errCursor if the cursor was made for another question or by another server.
func (s sealer) open(cursor string, question ...string) (string, error) {
	if len(cursor) > 2*(sha256.Size+MaxNamespace+4*MaxKey) {
		return "", errCursor
	}
	raw, err := encoding.DecodeString(cursor)
	if err != nil || len(raw) < sha256.Size {
		return "", errCursor
	}
	position := string(raw[sha256.Size:])
	for _, key := range s.keys {
		if hmac.Equal(raw[:sha256.Size], sign(key, position, question)) {
			return position, nil
		}
	}
	return "", errCursor
}

// sign returns the MAC over the texts with their lengths, so that no two lists have the same input.
func sign(key []byte, position string, question []string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, text := range append([]string{position}, question...) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		mac.Write(size[:])
		mac.Write([]byte(text))
	}
	return mac.Sum(nil)
}
