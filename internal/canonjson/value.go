package canonjson

import (
	"math"
	"sync"

	"holdfast/internal/fault"
)

// Value is a JSON value in its canonical spelling, which is what its size is
// counted by and what every engine keeps and gives back:
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
// Two values are the same value if and only if their texts are the same. The
// empty Value is none; other values are made by the functions of this package,
// or read from where a Value was kept.
type Value string

// EmptyObject is {}.
const EmptyObject Value = "{}"

// MarshalJSON is the text itself; without it a Value would become a string.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(v), nil }

// MaxDepth is how deep arrays and objects may be nested.
const MaxDepth = 32

// spelling is how many bytes of a text make one of a canonical text at most
// that is worth reading: what has every character that is not ASCII as \uXXXX
// needs three, the rest is for white space.
const spelling = 4

// Parse reads a JSON text whose canonical spelling has at most limit bytes.
// A *LimitError refuses one that is longer; its Size is that of the canonical
// spelling, or of a text that is more than four times the limit, which is not read.
//
// An *Error with the place refuses what is not JSON in UTF-8, a name
// that an object has twice, depth over MaxDepth, U+0000 and lone surrogates in
// strings, which jsonb does not keep, and numbers out of the bounds of [Number].
//
// jsonb writes exponents out. A *LimitError refuses a value in which they stand for
// more than ZerosPerByte times limit zeros, so what jsonb gives back has less than ten
// times the limit.
func Parse(text []byte, limit int) (Value, error) {
	if len(text) > limit*spelling {
		return "", tooLarge(len(text), limit)
	}
	return canonical(text, limit)
}

// Restore is the Value that an engine gave back in a spelling of its own. It was
// accepted once, so there is no limit, and an error is our fault.
func Restore(text []byte) (Value, error) {
	v, err := canonical(text, math.MaxInt)
	if err != nil {
		return "", fault.Wrap(fault.Internal, "a stored value is not what was put", err)
	}
	return v, nil
}

// parsers are parsers with their scratch, which is as large as what they read.
var parsers = sync.Pool{New: func() any { return new(parser) }}

func canonical(text []byte, limit int) (Value, error) {
	p := parsers.Get().(*parser)
	defer parsers.Put(p)
	*p = parser{text: text, limit: limit, zeros: zerosAllowed(limit), out: p.out[:0], members: p.members[:0], moved: p.moved, digits: p.digits}
	ok := p.value(0) && p.end()
	p.text = nil // the pool keeps scratch, not what a client sent
	switch {
	case ok && len(p.out) <= limit:
		return Value(p.out), nil
	case ok:
		err := tooLarge(len(p.out), limit)
		p.out, p.members, p.moved = nil, nil, nil // the pool keeps no scratch of this size
		return "", err
	}
	return "", p.invalid()
}
