package hawk

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// These maximum lengths in bytes limit the work for unauthenticated clients.
const (
	maxHeader = 4096
	maxID     = 2048
	maxNonce  = 128
	maxExt    = 512
	maxTS     = 12 // digits; enough until the year 33658
)

const scheme = "Hawk "

// Header is a Hawk Authorization header.
type Header struct {
	ID    string // identifies the key; here a tokenlib token
	TS    int64  // client clock, Unix seconds
	Nonce string
	Hash  string // of the payload; "": not signed
	Ext   string // signed, without a meaning here
	MAC   string
}

// String returns the header's value.
func (h Header) String() string {
	b := make([]byte, 0, 160+len(h.ID)+len(h.Ext))
	b = append(b, scheme...)
	b = appendField(b, "id", h.ID)
	b = append(b, ", "...)
	b = appendField(b, "ts", strconv.FormatInt(h.TS, 10))
	b = append(b, ", "...)
	b = appendField(b, "nonce", h.Nonce)
	if h.Hash != "" {
		b = append(b, ", "...)
		b = appendField(b, "hash", h.Hash)
	}
	if h.Ext != "" {
		b = append(b, ", "...)
		b = appendField(b, "ext", h.Ext)
	}
	b = append(b, ", "...)
	b = appendField(b, "mac", h.MAC)
	return string(b)
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, `="`...)
	b = append(b, value...)
	return append(b, '"')
}

// ParseHeader parses an Authorization header. Unknown or repeated fields and empty values are errors. The error is
// ErrMalformed with a reason that contains no value.
func ParseHeader(value string) (Header, error) {
	if len(value) > maxHeader {
		return Header{}, malformed("longer than %d bytes", maxHeader)
	}
	if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return Header{}, malformed("the scheme must be Hawk")
	}
	var h Header
	var seen fields
	rest := strings.Trim(value[len(scheme):], " \t")
	for {
		name, text, after, err := nextField(rest)
		if err != nil {
			return Header{}, err
		}
		if err := h.set(&seen, name, text); err != nil {
			return Header{}, err
		}
		after = strings.TrimLeft(after, " \t")
		if after == "" {
			break
		}
		if after[0] != ',' {
			return Header{}, malformed("expected a comma after the field %s", name)
		}
		rest = strings.TrimLeft(after[1:], " \t")
	}
	if seen&required != required {
		return Header{}, malformed("id, ts, nonce and mac are required")
	}
	return h, nil
}

// nextField parses name="value" and returns the rest.
func nextField(s string) (name, text, rest string, err error) {
	name, rest, ok := strings.Cut(s, `="`)
	if !ok {
		return "", "", "", malformed(`expected name="value"`)
	}
	text, rest, ok = strings.Cut(rest, `"`)
	if !ok {
		return "", "", "", malformed("unterminated quoted value")
	}
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '\\' {
			return "", "", "", malformed("a value contains a character that is not allowed")
		}
	}
	return name, text, rest, nil
}

// fields is a set of header fields.
type fields uint8

const (
	fieldID fields = 1 << iota
	fieldTS
	fieldNonce
	fieldHash
	fieldExt
	fieldMAC

	required = fieldID | fieldTS | fieldNonce | fieldMAC
)

// set parses a field; seen are the fields so far.
func (h *Header) set(seen *fields, name, text string) error {
	var f fields
	ok := text != ""
	switch name {
	case "id":
		f, h.ID = fieldID, text
		ok = ok && len(text) <= maxID
	case "ts":
		f = fieldTS
		h.TS, ok = parseTS(text)
	case "nonce":
		f, h.Nonce = fieldNonce, text
		ok = ok && len(text) <= maxNonce
	case "hash":
		f, h.Hash = fieldHash, text
		ok = isDigest(text)
	case "ext":
		f, h.Ext = fieldExt, text
		ok = ok && len(text) <= maxExt
	case "mac":
		f, h.MAC = fieldMAC, text
		ok = isDigest(text)
	default:
		return malformed("unknown field")
	}
	if *seen&f != 0 {
		return malformed("duplicate field %s", name)
	}
	*seen |= f
	if !ok {
		return malformed("the value of the field %s is not valid", name)
	}
	return nil
}

// parseTS accepts only a number's canonical form, because the MAC covers the text.
func parseTS(text string) (int64, bool) {
	if text == "" || len(text) > maxTS || (text[0] == '0' && text != "0") {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil
}

var digestEncoding = base64.StdEncoding.Strict()

// isDigest reports whether text is the base64 of 32 bytes.
func isDigest(text string) bool {
	var sum [33]byte
	if len(text) != 44 {
		return false
	}
	n, err := digestEncoding.Decode(sum[:], []byte(text))
	return err == nil && n == 32
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}
