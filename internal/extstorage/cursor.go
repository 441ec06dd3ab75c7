package extstorage

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// errCursor is a cursor that was not given for the same question.
var errCursor = refuse("must be a cursor from an earlier response to the same request")

// encoding refuses bits that mean nothing: a cursor has one spelling.
var encoding = base64.RawURLEncoding.Strict()

// sealer makes cursors: a place in an answer, opaque and signed, and bound to
// the question that it is the answer to. The first key signs, all are accepted.
type sealer struct{ keys [][]byte }

// seal is the cursor of a place.
func (s sealer) seal(place string, question ...string) string {
	return encoding.EncodeToString(append(sign(s.keys[0], place, question), place...))
}

// open is the place of a cursor; errCursor when it was edited or is of another
// question.
func (s sealer) open(cursor string, question ...string) (string, error) {
	if len(cursor) > 2*(sha256.Size+MaxNamespace+4*MaxKey) {
		return "", errCursor
	}
	raw, err := encoding.DecodeString(cursor)
	if err != nil || len(raw) < sha256.Size {
		return "", errCursor
	}
	place := string(raw[sha256.Size:])
	for _, key := range s.keys {
		if hmac.Equal(raw[:sha256.Size], sign(key, place, question)) {
			return place, nil
		}
	}
	return "", errCursor
}

// sign signs texts, each with its length, so that none can run into the next.
func sign(key []byte, place string, question []string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, text := range append([]string{place}, question...) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		mac.Write(size[:])
		mac.Write([]byte(text))
	}
	return mac.Sum(nil)
}
