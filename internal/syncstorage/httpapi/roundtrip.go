package httpapi

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// isRoundTripSafe rejects texts that would change when they are decoded and encoded: invalid UTF-8 and lone surrogates.
func isRoundTripSafe(text []byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i+1 >= len(text) {
			return true
		}
		text = text[i:]
		switch unit := surrogate(text); {
		case unit == 0:
			text = text[2:]
		case unit < 0xdc00 && surrogate(text[6:]) >= 0xdc00:
			text = text[12:]
		default:
			return false
		}
	}
}

// surrogate returns the surrogate that an escape \uXXXX at the start of text stands for, or 0.
func surrogate(text []byte) uint64 {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil || unit < 0xd800 || unit > 0xdfff {
		return 0
	}
	return unit
}
