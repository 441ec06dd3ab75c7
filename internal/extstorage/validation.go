package extstorage

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"holdfast/internal/fault"
)

// ValidationError is something that is not as it must be: a name, a number, a
// value, a result. Reason is half a sentence for the client ("must be a UUID").
// It quotes nothing of what the client sent, because it goes to the log; the
// pointer does, and is for the client only.
type ValidationError struct {
	Pointer string // RFC 6901, to the place in the text that was read; "" is all of it
	Reason  string
}

func (e *ValidationError) Error() string { return e.Reason }

// FaultCode implements fault.Coder.
func (*ValidationError) FaultCode() fault.Code { return fault.Invalid }

// Under is the error with its place in a text around the one that was read,
// such as a request that has the value under "/value".
func (e *ValidationError) Under(pointer string) *ValidationError {
	return &ValidationError{Pointer: pointer + e.Pointer, Reason: e.Reason}
}

func refuse(reason string) *ValidationError { return &ValidationError{Reason: reason} }

// Pointer is a place in a JSON text by RFC 6901: the names and indexes on the
// way to it, not escaped. The empty pointer is the whole.
type Pointer []string

var (
	pointerEscapes   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescapes = strings.NewReplacer("~0", "~", "~1", "/")
)

// ParsePointer reads "" or "/name/0/name", in which ~0 is "~" and ~1 is "/".
func ParsePointer(s string) (Pointer, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' || !utf8.ValidString(s) {
		return nil, refuse("must be a JSON pointer")
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return nil, refuse("must be a JSON pointer: a ~ in it is written ~0")
		}
	}
	tokens := strings.Split(s[1:], "/")
	for i, token := range tokens {
		tokens[i] = pointerUnescapes.Replace(token)
	}
	return tokens, nil
}

// String spells the pointer by RFC 6901.
func (p Pointer) String() string {
	var b strings.Builder
	for _, token := range p {
		b.WriteByte('/')
		_, _ = pointerEscapes.WriteString(&b, token) // a Builder does not fail
	}
	return b.String()
}

// index reads a token as the index of an array.
func index(token string) (int, bool) {
	if token == "" || token[0] == '0' && token != "0" || strings.Trim(token, "0123456789") != "" {
		return 0, false
	}
	i, err := strconv.Atoi(token)
	return i, err == nil
}
