package canonjson

import (
	"math"
	"sync"

	"holdfast/internal/errcode"
)

// Value is a JSON value in canonical spelling. Its size is counted in this
// spelling, and every engine stores and returns it:
//
//   - no white space;
//   - the members of an object in the order of PostgreSQL's jsonb: shorter names
//     first, those of one length by their bytes in UTF-8;
//   - in strings, \" and \\, the short escapes \b \f \n \r \t, the other
//     characters before the space as \u00xx in lower case, and everything else
//     as it is, in UTF-8;
//   - numbers as digits without exponent, without superfluous zeros and without
//     the sign of -0, unless an exponent spares more than 20 zeros: 1.0, 1e0 and
//     10e-1 are 1, and 1000e300 is 1e303. See [Number].
//
// Two values are the same if and only if their texts are the same. The empty Value
// means that there is none. Other values are created by the functions of this
// package, or read from where a Value was stored.
type Value string

// EmptyObject is {}.
const EmptyObject Value = "{}"

// MarshalJSON returns the text itself; without it a Value would become a string.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(v), nil }

// MaxDepth is the maximum nesting depth of arrays and objects.
const MaxDepth = 32

// spelling is the maximum ratio between the length of a text and the limit of its
// canonical form; longer texts are not read. A text with every non-ASCII character
// as \uXXXX needs 3; the rest is for white space.
const spelling = 4

// Parse parses a JSON text whose canonical spelling has at most limit bytes. If it
// is longer, Parse returns a *LimitError. Its Size is that of the canonical
// spelling, or of the text if that exceeds four times the limit and is not read.
//
// Parse returns an *Error with the location for a text that is not JSON in UTF-8,
// a duplicate name in an object, nesting deeper than MaxDepth, U+0000 and lone
// surrogates in strings, which jsonb cannot store, and numbers beyond the bounds
// of [Number].
//
// jsonb writes exponents out. Parse returns a *LimitError for a value whose
// exponents expand to more than ZerosPerByte times limit zeros, so jsonb returns
// less than ten times the limit.
func Parse(text []byte, limit int) (Value, error) {
	if len(text) > limit*spelling {
		return "", tooLarge(len(text), limit)
	}
	return canonical(text, limit)
}

// Restore returns the Value for a text that an engine returned in its own
// spelling. It was accepted before, so there is no limit, and an error is a bug of
// the server.
func Restore(text []byte) (Value, error) {
	v, err := canonical(text, math.MaxInt)
	if err != nil {
		return "", errcode.Wrap(errcode.Internal, "a stored value is not a valid value", err)
	}
	return v, nil
}

// AppendRestored appends what Restore returns.
func AppendRestored(to, text []byte) ([]byte, error) {
	p := parserOf(text, math.MaxInt)
	defer parsers.Put(p)
	if p.value(0) && p.end() {
		p.text = nil
		return append(to, p.out...), nil
	}
	_, err := Restore(text)
	return to, err
}

// parsers holds parsers with their scratch memory, which is as large as what they
// read.
var parsers = sync.Pool{New: func() any { return new(parser) }}

func parserOf(text []byte, limit int) *parser {
	p := parsers.Get().(*parser)
	*p = parser{text: text, limit: limit, zeros: zerosAllowed(limit), out: p.out[:0], members: p.members[:0], moved: p.moved, digits: p.digits}
	return p
}

func canonical(text []byte, limit int) (Value, error) {
	p := parserOf(text, limit)
	defer parsers.Put(p)
	ok := p.value(0) && p.end()
	p.text = nil // the pool keeps scratch memory, not client data
	switch {
	case ok && len(p.out) <= limit:
		return Value(p.out), nil
	case ok:
		err := tooLarge(len(p.out), limit)
		p.out, p.members, p.moved = nil, nil, nil // the pool keeps no scratch memory of this size
		return "", err
	}
	return "", p.invalid()
}
