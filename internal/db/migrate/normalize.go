package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"
)

// checksum returns the SHA-256 of a migration without its comments and white space, in hex. So a development build that
// only reworded a comment accepts a database of the build before.
func checksum(sql string) string {
	if short, ok := normalize(sql); ok {
		sql = short
	}
	return sumOf(sql)
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// dollar matches the beginning of a dollar-quoted text in PostgreSQL.
var dollar = regexp.MustCompile(`^\$(?:[A-Za-z_][A-Za-z_0-9]*)?\$`)

// normalize removes comments, and white space that separates no tokens. The text of literals, quoted names and
// dollar-quoted bodies stays as it is. Engines read some texts differently: a backslash in a literal, a comment in a
// comment, and # in Spanner. For a text with one of them, or with an open literal, ok is false.
func normalize(sql string) (short string, ok bool) {
	if strings.ContainsAny(sql, `\#`) {
		return "", false
	}
	var out strings.Builder
	space, last := false, byte(0)
	add := func(token string) {
		if space && separates(last, token[0]) {
			out.WriteByte(' ')
		}
		out.WriteString(token)
		space, last = false, token[len(token)-1]
	}
	for sql != "" {
		n := 1
		switch c := sql[0]; {
		case unicode.IsSpace(rune(c)) && c < 0x80:
			space, sql = true, sql[1:]
			continue
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
			space = true
			continue
		case strings.HasPrefix(sql, "/*"):
			comment, rest, isClosed := strings.Cut(sql[2:], "*/")
			if !isClosed || strings.Contains(comment, "/*") {
				return "", false
			}
			space, sql = true, rest
			continue
		case c == '\'' || c == '"' || c == '`':
			end := strings.IndexByte(sql[1:], c)
			if end < 0 {
				return "", false
			}
			n = end + 2
		case c == '$' && !(isWord(last) && !space):
			if tag := dollar.FindString(sql); tag != "" {
				end := strings.Index(sql[len(tag):], tag)
				if end < 0 {
					return "", false
				}
				n = end + 2*len(tag)
			}
		}
		add(sql[:n])
		sql = sql[n:]
	}
	return out.String(), true
}

// separates reports whether white space between two bytes may separate two tokens that would otherwise be one.
func separates(a, b byte) bool {
	switch {
	case a == 0, strings.IndexByte("(),;", a) >= 0, strings.IndexByte("(),;", b) >= 0:
		return false
	}
	return isWord(a) == isWord(b)
}

// isWord reports whether a byte may be in a name, a number or a quoted text. Other bytes are operators.
func isWord(c byte) bool {
	return c >= 0x80 || c == '_' || c == '$' || c == '.' || c == '\'' || c == '"' || c == '`' ||
		'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
