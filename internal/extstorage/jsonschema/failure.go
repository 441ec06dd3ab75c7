package jsonschema

import (
	"slices"
	"strings"

	"holdfast/internal/fault"
)

// Error is what is wrong with a schema document or with a value. Pointer is the
// RFC 6901 pointer to the place in it, "" being the whole. Reason is half a
// sentence for the client ("must be a string"); it quotes nothing that a client
// sent, because it goes to the log.
type Error struct {
	Pointer string
	Reason  string
}

func (e *Error) Error() string { return e.Reason }

// FaultCode implements fault.Coder.
func (*Error) FaultCode() fault.Code { return fault.Invalid }

// pointer is a place in a JSON text. Tokens are added to a clipped slice, so a
// pointer never changes under who keeps it.
type pointer []string

func (p pointer) add(tokens ...string) pointer { return append(slices.Clip(p), tokens...) }

func (p pointer) refuse(reason string) *Error { return &Error{Pointer: p.String(), Reason: reason} }

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

// String spells p by RFC 6901.
func (p pointer) String() string {
	var b strings.Builder
	for _, token := range p {
		b.WriteByte('/')
		_, _ = escapes.WriteString(&b, token) // a Builder does not fail
	}
	return b.String()
}
