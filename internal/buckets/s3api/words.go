package s3api

import (
	"encoding/base64"
	"mime"
	"strings"
	"unicode/utf8"
)

// userText decodes a user metadata value. S3 accepts encoded words (RFC 2047) from clients that can only send ASCII.
func userText(s string) string {
	s = text(s)
	if !strings.Contains(s, "=?") {
		return s
	}
	decoded, err := new(mime.WordDecoder).DecodeHeader(s)
	if err != nil { // unknown charset
		return s
	}
	return text(decoded) // a word may contain control characters
}

// encodeWords encodes user metadata like S3: ASCII stays unchanged, and other text becomes encoded words. boto3 would
// decode raw UTF-8 as Latin-1.
func encodeWords(s string) string {
	ascii, total := 0, 0
	for _, r := range s {
		if total++; r < utf8.RuneSelf {
			ascii++
		}
	}
	switch {
	case ascii == total && userText(s) == s:
		return s
	case ascii == total || ascii <= total-ascii:
		return base64Words(s)
	}
	return strings.ReplaceAll(mime.QEncoding.Encode("UTF-8", s), "=?UTF-8?q?", "=?UTF-8?Q?")
}

// maxWord limits the bytes in an encoded word, so that their base64 fits in its 75 characters.
const maxWord = 45

// base64Words returns encoded words in base64, and does not split a character between words.
func base64Words(s string) string {
	var out strings.Builder
	for s != "" {
		n := min(len(s), maxWord)
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n--
		}
		if out.Len() > 0 {
			out.WriteByte(' ')
		}
		out.WriteString("=?UTF-8?B?" + base64.StdEncoding.EncodeToString([]byte(s[:n])) + "?=")
		s = s[n:]
	}
	return out.String()
}
