package httpapi

import (
	"math/bits"
	"strconv"
	"unicode/utf8"

	ss "holdfast/internal/syncstorage"
)

// JSON is appended by hand: encoding dominates large downloads, and for 1,000 records this takes a third of
// encoding/json's time and allocates nothing.

// appendBSO appends a record with its payload.
func appendBSO(b []byte, r *ss.BSO) []byte {
	return appendTail(appendString(appendHead(b, r), r.Payload), r)
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string.
func appendString[T string | []byte](b []byte, s T) []byte {
	return append(appendEscaped(append(b, '"'), s), '"')
}

// appendEscaped appends a JSON string's contents. Invalid UTF-8 becomes U+FFFD.
func appendEscaped[T string | []byte](b []byte, s T) []byte {
	from := 0
	for i := plain(s, 0); i < len(s); i = plain(s, i) {
		c := s[i]
		if c < utf8.RuneSelf {
			b = append(b, s[from:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		if r == utf8.RuneError && size == 1 {
			b = append(b, s[from:i]...)
			b = append(b, "\ufffd"...)
			from = i + 1
		}
		i += size
	}
	return append(b, s[from:]...)
}

// plain returns the index of the first control character, quote, backslash or non-ASCII byte from i on. It checks
// eight bytes at a time: payloads are mostly base64.
func plain[T string | []byte](s T, i int) int {
	const each, top = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		// Subtraction sets a byte's top bit if it is less than the subtrahend. Borrows affect only later bytes, and
		// only the first match counts.
		quote, slash := w^('"'*each), w^('\\'*each)
		marked := (w | (w-' '*each)&^w | (quote-each)&^quote | (slash-each)&^slash) & top
		if marked != 0 {
			return i + bits.TrailingZeros64(marked)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}

// appendStrings appends a JSON array.
func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

// appendKey appends an object's member i up to the colon.
func appendKey(b []byte, i int, key string) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return append(appendString(b, key), ':')
}

// appendPosted appends the answer to a POST, as Mozilla's server sends it.
func appendPosted(b []byte, p *ss.Posted) []byte {
	b = append(b, '{')
	if p.Staged {
		b = append(b, `"batch":`...)
		b = appendString(b, string(p.Batch))
	} else {
		b = append(b, `"modified":`...)
		b = p.Modified.Append(b)
	}
	b = append(b, `,"success":`...)
	b = appendStrings(b, p.Success)
	b = append(b, `,"failed":{`...)
	for i, f := range p.Failed {
		b = appendString(appendKey(b, i, f.ID), f.Reason)
	}
	return append(b, "}}"...)
}

// appendKB appends bytes in units of 1,024, as the info paths and quota headers use.
func appendKB(b []byte, bytes int64) []byte {
	return strconv.AppendFloat(b, float64(bytes)/1024, 'f', -1, 64)
}
