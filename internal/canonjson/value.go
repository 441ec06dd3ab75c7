package canonjson

import (
	"math"
	"sync"

	"holdfast/internal/errcode"
)

// Value is a JSON value in canonical spelling, in which its size is counted and every engine stores it:
//
//   - no white space;
//   - object members in the order of PostgreSQL's jsonb: shorter names first, then by UTF-8 bytes;
//   - in strings, \" and \\, the short escapes \b \f \n \r \t, other characters before space as lower-case \u00xx,
//     and everything else in UTF-8;
//   - numbers as described in [Number]: 1.0, 1e0 and 10e-1 are 1, -0 is 0, and 1000e300 is 1e303.
//
// "" means no value. Other values come from this package's functions or from storage.
type Value string

const EmptyObject Value = "{}"

// MarshalJSON returns the text, because a Value would otherwise become a string.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(v), nil }

// MaxDepth limits the nesting of arrays and objects.
const MaxDepth = 32

// spelling is the maximum ratio of a text to its canonical limit. Spelling every non-ASCII character as \uXXXX needs
// 3; the rest is for white space.
const spelling = 4

// Parse parses a JSON text. It returns a *LimitError if the canonical spelling exceeds limit bytes. Its Size is the
// canonical length, or the text's length if the text exceeds four times the limit and is not read.
//
// It returns an *Error with the location for text that is not JSON in UTF-8, duplicate names, nesting beyond
// MaxDepth, U+0000 and lone surrogates, which jsonb cannot store, and numbers out of [Number]'s bounds.
//
// jsonb writes exponents as zeros. Parse returns a *LimitError for more than ZerosPerByte times limit such zeros, so the
// text from jsonb is less than ten times the limit.
func Parse(text []byte, limit int) (Value, error) {
	if len(text) > limit*spelling {
		return "", tooLarge(len(text), limit)
	}
	return canonical(text, limit)
}

// keptBytes is the size of the largest buffer that ParseAround leaves for later calls.
const keptBytes = 64 << 10

// ParseAround is Parse for a text around values that Parse accepted, such as a request. The values are so many levels deep
// in it. It has no limit of its own: the canonical spelling is as long as that of the values and their surroundings.
func ParseAround(text []byte, levels int) (Value, error) {
	p := parserOf(text, math.MaxInt)
	defer parsers.Put(p)
	ok := p.value(-levels) && p.end()
	p.text = nil
	if !ok {
		return "", p.invalid()
	}
	v := Value(p.out)
	if cap(p.out) > keptBytes {
		p.out, p.moved = nil, nil
	}
	return v, nil
}

// Restore returns the Value for an engine's spelling, without a limit. An error means a bug.
func Restore(text []byte) (Value, error) {
	v, err := canonical(text, math.MaxInt)
	if err != nil {
		return "", errcode.Wrap(errcode.Internal, "a stored value is not a valid value", err)
	}
	return v, nil
}

// AppendRestored is like Restore, but appends.
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

var parsers = sync.Pool{New: func() any { return new(parser) }}

// parserOf returns a parser with reused memory.
func parserOf(text []byte, limit int) *parser {
	p := parsers.Get().(*parser)
	*p = parser{text: text, limit: limit, zeros: zerosAllowed(limit), out: p.out[:0], members: p.members[:0], moved: p.moved, digits: p.digits}
	return p
}

func canonical(text []byte, limit int) (Value, error) {
	p := parserOf(text, limit)
	defer parsers.Put(p)
	ok := p.value(0) && p.end()
	p.text = nil // keep scratch memory, not client data
	switch {
	case ok && len(p.out) <= limit:
		return Value(p.out), nil
	case ok:
		err := tooLarge(len(p.out), limit)
		p.out, p.members, p.moved = nil, nil, nil // too large to keep
		return "", err
	}
	return "", p.invalid()
}
