package s3api

import (
	"encoding/base64"
	"mime"
	"strings"
	"unicode/utf8"
)

// userText decodes the value of user metadata. S3 accepts encoded words (RFC 2047), because
// many clients can only send ASCII. Text that is not a valid word stays as it is.
func userText(s string) string {
	s = text(s)
	if !strings.Contains(s, "=?") {
		return s
	}
	decoded, err := new(mime.WordDecoder).DecodeHeader(s)
	if err != nil { // an unknown charset
		return s
	}
	return text(decoded) // a word may contain control characters
}

// encodeWords encodes user metadata as S3 returns it: ASCII as it is, other text as encoded
// words, in the encoding Q if most of it is ASCII. Clients cannot rely on another encoding of
// headers: boto3 reads them as Latin-1. ASCII that a client would decode is encoded, too.
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

// maxWord is the largest number of bytes whose encoded word has at most 75 characters.
const maxWord = 45

// base64Words encodes text in the encoding B. No character is split between two words.
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
