package syncstorage

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"

	"holdfast/internal/errcode"
)

// errMetaGlobal means that a meta/global record is not as clients write it.
var errMetaGlobal = errcode.New(errcode.Invalid, "the payload of meta/global is not a JSON object with an object of engines")

// NewSyncID returns a random sync ID as clients make them: 12 characters of base64url.
func NewSyncID() string {
	b := make([]byte, 9)
	_, _ = rand.Read(b) // ends the process if the system lacks entropy
	return base64.RawURLEncoding.EncodeToString(b)
}

// ReplaceSyncIDs replaces the syncID of each engine in the payload of a meta/global record, and returns how many it
// replaced:
//
//	{"syncID": "…", "engines": {"bookmarks": {"version": 2, "syncID": "replaced"}}, "declined": ["addons"]}
//
// A client that finds another ID for an engine starts this engine over, as at a first sync. All other bytes stay: the
// syncID of the whole storage, versions, members that this server does not know, white space, and the order. If a
// member occurs twice, its IDs are replaced in both places, because a client may read either. A syncID that is not a
// string stays. ReplaceSyncIDs returns errMetaGlobal if the payload or its engines are not a JSON object.
func ReplaceSyncIDs(payload []byte, newID func() string) (edited []byte, replaced int, err error) {
	if !json.Valid(payload) {
		return nil, 0, errMetaGlobal
	}
	m := members{payload: payload, decoder: json.NewDecoder(bytes.NewReader(payload))}
	m.decoder.UseNumber() // a number that a float64 cannot hold is valid
	var ids []span
	isValid := m.each(func(name string) {
		if name != "engines" {
			m.skip()
			return
		}
		if !m.each(func(string) {
			m.each(func(name string) {
				if value, isString := m.value(); name == "syncID" && isString {
					ids = append(ids, value)
				}
			})
		}) {
			err = errMetaGlobal
		}
	})
	if !isValid || err != nil {
		return nil, 0, errMetaGlobal
	}
	end := 0
	for _, id := range ids {
		edited = append(edited, payload[end:id.begin]...)
		edited = append(edited, '"')
		edited = append(edited, newID()...)
		edited = append(edited, '"')
		end = id.end
	}
	return append(edited, payload[end:]...), len(ids), nil
}

// span is the place of a value in a payload.
type span struct{ begin, end int }

// members reads the members of objects in a valid JSON text.
type members struct {
	payload []byte
	decoder *json.Decoder
}

// each calls fn with the name of each member of the next value. fn must read the member's value. If the next value is
// not an object, each skips it and returns false.
func (m *members) each(fn func(name string)) bool {
	begin, _ := m.decoder.Token()
	if begin != json.Delim('{') {
		m.end(begin)
		return false
	}
	for m.decoder.More() {
		name, _ := m.decoder.Token()
		text, _ := name.(string)
		fn(text)
	}
	_, _ = m.decoder.Token()
	return true
}

// value skips the next value, and returns its place if it is a string.
func (m *members) value() (at span, isString bool) {
	from := int(m.decoder.InputOffset())
	token, _ := m.decoder.Token()
	m.end(token)
	if _, isString = token.(string); !isString {
		return at, false
	}
	at.end = int(m.decoder.InputOffset())
	at.begin = from + bytes.IndexByte(m.payload[from:at.end], '"') // after a colon and white space
	return at, true
}

func (m *members) skip() { _, _ = m.value() }

// end reads on to the end of the value that begins with this token.
func (m *members) end(begin json.Token) {
	depth := 0
	for token := begin; ; token, _ = m.decoder.Token() {
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return
		}
	}
}
