package canonjson

import (
	"bytes"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// Number is a JSON number in canonical spelling: its exact value in plain digits without superfluous zeros. It has an
// exponent only where that saves more than 20 zeros, with one nonzero digit before the point and no plus sign. ""
// means no number.
//
// A number has at most 400 digits, without zeros at either end, and is 0 or from 1e-308 to below 1e309 in absolute
// value. Engines allow more, but then ten bytes could expand to a hundred thousand.
type Number string

// Bounds of a number.
const (
	MaxDigits   = 400
	MaxExponent = 308

	// ZerosPerByte is how many zeros exponents may expand to, per byte of the size limit. Four-byte floats (1e-45 to
	// 1e38) stay below that.
	ZerosPerByte = 8

	maxZeros  = 20    // written out without an exponent
	maxNumber = 1_024 // canonical numbers are shorter, in bytes
)

// zerosAllowed returns how many zeros exponents may expand to in a value with this limit.
func zerosAllowed(limit int) int {
	if limit > math.MaxInt/ZerosPerByte {
		return math.MaxInt
	}
	return ZerosPerByte * limit
}

// ParseNumber parses a number. The errors are Parse's.
func ParseNumber(text []byte) (Number, error) {
	v, err := Parse(text, maxNumber)
	if err == nil && !v.isNumber() {
		return "", refuse("must be a number")
	}
	return Number(v), err
}

func (v Value) isNumber() bool { return v != "" && (v[0] == '-' || isDigit(v[0])) }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// decimal is 0.DIGITS times 10^point. Digits neither begin nor end with 0; zero has no digits.
type decimal struct {
	negative bool
	digits   []byte
	point    int
}

// literal is a number as it is written.
type literal struct {
	negative        bool
	whole, fraction []byte
	exponent        int
	length          int  // bytes
	simple          bool // see readLiteral
}

// readLiteral reads a number. The length is 0 if the number is not valid. A simple literal is short and without
// exponent, so only superfluous zeros can make it non-canonical.
func readLiteral(text []byte) (l literal) {
	i := 0
	if len(text) > 0 && text[0] == '-' {
		l.negative = true
		i++
	}
	n := countDigits(text[i:])
	if n == 0 || n > 1 && text[i] == '0' {
		return literal{}
	}
	l.whole = text[i : i+n]
	i += n
	if i < len(text) && text[i] == '.' {
		i++
		if n = countDigits(text[i:]); n == 0 {
			return literal{}
		}
		l.fraction = text[i : i+n]
		i += n
	}
	l.simple = len(l.whole)+len(l.fraction) <= maxZeros
	if i < len(text) && text[i]|0x20 == 'e' {
		i++
		if l.exponent, n = readExponent(text[i:]); n == 0 {
			return literal{}
		}
		i += n
		l.simple = false
	}
	l.length = i
	return l
}

// canonical reports whether a simple literal is in canonical spelling.
func (l *literal) canonical() bool {
	if l.fraction != nil {
		return l.fraction[len(l.fraction)-1] != '0'
	}
	return l.whole[0] != '0' || !l.negative
}

// decimal returns the value; its digits are in scratch.
func (l *literal) decimal(scratch []byte) decimal {
	digits := append(append(scratch[:0], l.whole...), l.fraction...)
	d := decimal{negative: l.negative, digits: digits, point: len(l.whole) + l.exponent}
	d.trim()
	return d
}

// number reads a number and writes it in canonical spelling.
func (p *parser) number() bool {
	text := p.text[p.at:]
	l := readLiteral(text)
	if l.length == 0 {
		return p.refuse(notJSON)
	}
	p.at += l.length
	if l.simple && l.canonical() {
		p.out = append(p.out, text[:l.length]...)
		return true
	}
	p.digits = slices.Grow(p.digits[:0], l.length)
	d := l.decimal(p.digits)
	if reason := d.outOfBounds(); reason != "" {
		return p.refuse(reason)
	}
	before := len(p.out)
	p.out = d.appendTo(p.out)
	p.spared += d.written() - (len(p.out) - before)
	return p.spared <= p.zeros
}

func countDigits(text []byte) int {
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

// readExponent reads n bytes after the e; n is 0 if they are not valid. Exponents are capped above the length of any
// text.
func readExponent(text []byte) (exponent, n int) {
	start := 0
	if len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		start = 1
	}
	digits := countDigits(text[start:])
	if digits == 0 {
		return 0, 0
	}
	for _, c := range text[start : start+digits] {
		exponent = min(exponent*10+int(c-'0'), 100_000_000)
	}
	if text[0] == '-' {
		exponent = -exponent
	}
	return exponent, start + digits
}

// trim removes zeros at either end.
func (d *decimal) trim() {
	for len(d.digits) > 0 && d.digits[0] == '0' {
		d.digits = d.digits[1:]
		d.point--
	}
	for len(d.digits) > 0 && d.digits[len(d.digits)-1] == '0' {
		d.digits = d.digits[:len(d.digits)-1]
	}
	if len(d.digits) == 0 {
		*d = decimal{}
	}
}

// outOfBounds returns the reason why the number is refused, or "".
func (d *decimal) outOfBounds() string {
	switch exponent := d.point - 1; {
	case len(d.digits) > MaxDigits:
		return "is a number with more than 400 digits"
	case len(d.digits) > 0 && (exponent > MaxExponent || exponent < -MaxExponent):
		return "is a number out of range: exponents from -308 to 308 are supported"
	}
	return ""
}

// short reports whether an exponent makes the spelling shorter.
func (d *decimal) short() bool {
	return d.point > len(d.digits)+maxZeros || d.point < -maxZeros
}

// written returns the length without an exponent, which sizes are about.
func (d *decimal) written() int {
	n := len(d.digits)
	switch {
	case n == 0:
		return len("0")
	case d.point <= 0:
		n += len("0.") - d.point
	case d.point < n:
		n += len(".")
	default:
		n = d.point
	}
	if d.negative {
		n += len("-")
	}
	return n
}

// appendTo appends the canonical spelling.
func (d *decimal) appendTo(out []byte) []byte {
	n := len(d.digits)
	if n == 0 {
		return append(out, '0')
	}
	if d.negative {
		out = append(out, '-')
	}
	switch {
	case d.short():
		out = append(out, d.digits[0])
		if n > 1 {
			out = append(append(out, '.'), d.digits[1:]...)
		}
		return strconv.AppendInt(append(out, 'e'), int64(d.point-1), 10)
	case d.point <= 0:
		return append(append(append(out, "0."...), zeros[:-d.point]...), d.digits...)
	case d.point < n:
		return append(append(append(out, d.digits[:d.point]...), '.'), d.digits[d.point:]...)
	}
	return append(append(out, d.digits...), zeros[:d.point-n]...)
}

var zeros = bytes.Repeat([]byte{'0'}, maxZeros)

// Add returns the exact sum, or an *Error if it is out of bounds.
func (n Number) Add(m Number) (Number, error) {
	a, b, exponent := align(n, m)
	text := a.Add(a, b).Append(nil, 10)
	d := decimal{negative: a.Sign() < 0, digits: bytes.TrimPrefix(text, []byte{'-'})}
	d.point = len(d.digits) + exponent
	d.trim()
	if reason := d.outOfBounds(); reason != "" {
		return "", refuse(reason)
	}
	return Number(d.appendTo(nil)), nil
}

// Compare returns -1, 0 or 1, comparing exactly.
func (n Number) Compare(m Number) int {
	a, b, _ := align(n, m)
	return a.Cmp(b)
}

// align scales two numbers to integers with a common exponent, about a thousand digits at most.
func align(n, m Number) (a, b *big.Int, exponent int) {
	x, y := n.decimal(), m.decimal()
	exponent = min(x.unit(), y.unit())
	return x.scaled(exponent), y.scaled(exponent), exponent
}

func (n Number) decimal() decimal {
	l := readLiteral([]byte(n))
	return l.decimal(nil)
}

// unit returns the exponent of the last digit.
func (d *decimal) unit() int { return d.point - len(d.digits) }

// scaled returns the number divided by 10^exponent, which must not be above unit.
func (d *decimal) scaled(exponent int) *big.Int {
	i := new(big.Int)
	if len(d.digits) == 0 {
		return i
	}
	i.SetString(string(d.digits), 10)
	if d.negative {
		i.Neg(i)
	}
	return i.Mul(i, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.unit()-exponent)), nil))
}
