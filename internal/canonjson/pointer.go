package canonjson

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Pointer is a location in a JSON text (RFC 6901): unescaped names and indexes. An empty pointer is the whole text.
type Pointer []string

var (
	pointerEscapes   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescapes = strings.NewReplacer("~0", "~", "~1", "/")
)

// ParsePointer parses "" or "/name/0/name", in which ~0 means "~" and ~1 means "/".
func ParsePointer(s string) (Pointer, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' || !utf8.ValidString(s) {
		return nil, refuse("must be a JSON pointer: empty, or starting with /")
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return nil, refuse("must be a JSON pointer: ~ is escaped as ~0 and / as ~1")
		}
	}
	tokens := strings.Split(s[1:], "/")
	for i, token := range tokens {
		tokens[i] = pointerUnescapes.Replace(token)
	}
	return tokens, nil
}

// String returns the pointer in RFC 6901's form.
func (p Pointer) String() string {
	var b strings.Builder
	for _, token := range p {
		b.WriteByte('/')
		_, _ = pointerEscapes.WriteString(&b, token)
	}
	return b.String()
}

// Lookup returns the value at a pointer, if it exists.
func (v Value) Lookup(p Pointer) (Value, bool) {
	text := []byte(v)
	place := span{0, len(text)}
	found := len(text) > 0
	for i := 0; found && i < len(p); i++ {
		place, found = element(text, place.from, p[i])
	}
	if !found {
		return "", false
	}
	return Value(place.of(text)), true
}

// element finds the member or item that a token names, in the array or object at from.
func element(text []byte, from int, token string) (span, bool) {
	switch text[from] {
	case '{':
		for w := walk(text, from); w.ok; w.next() {
			if string(unescape(w.name)) == token {
				return w.value, true
			}
		}
	case '[':
		i, ok := index(token)
		w := walk(text, from)
		for ; ok && w.ok && i > 0; i-- {
			w.next()
		}
		return w.value, ok && w.ok
	}
	return span{}, false
}

// index parses an array index without leading zeros (RFC 6901, section 4).
func index(token string) (int, bool) {
	if token == "" || token[0] == '0' && token != "0" || strings.Trim(token, "0123456789") != "" {
		return 0, false
	}
	i, err := strconv.Atoi(token)
	return i, err == nil
}
