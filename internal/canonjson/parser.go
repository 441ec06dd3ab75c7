package canonjson

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// parser reads a JSON text once and writes the canonical text. Methods read an element, or return false and record
// the path.
type parser struct {
	text []byte
	at   int

	out    []byte
	limit  int // maximum bytes in out; longer texts are read for their size
	zeros  int // maximum zeros from exponents in out
	spared int // zeros that exponents have saved so far

	members []member // of the objects that are open
	moved   []byte   // scratch for sort
	digits  []byte   // scratch for number

	reason string   // of the first error
	path   []string // of the first error, innermost first
}

// member is an object member, as offsets into parser.out.
type member struct {
	start int
	colon int
	end   int
	name  int // length of the unescaped name
}

// refuse records the reason and returns false.
func (p *parser) refuse(reason string) bool {
	p.reason = reason
	return false
}

// invalid returns the reason for rejecting the text. A size error has priority.
func (p *parser) invalid() error {
	slices.Reverse(p.path)
	switch pointer := Pointer(p.path).String(); {
	case len(p.out) > p.limit:
		return tooLarge(0, p.limit)
	case p.spared > p.zeros:
		return &LimitError{Pointer: pointer, Limit: int64(p.zeros), Unit: "zeros in its numbers when they are written without exponents"}
	default:
		return &Error{Pointer: pointer, Reason: p.reason}
	}
}

// next skips white space and returns the next byte, or 0 at the end, because 0 is never valid.
func (p *parser) next() byte {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; c {
		case ' ', '\n', '\t', '\r':
			p.at++
		default:
			return c
		}
	}
	return 0
}

// end refuses data after the value.
func (p *parser) end() bool {
	if p.next(); p.at < len(p.text) {
		return p.refuse("is followed by extra data after the JSON value")
	}
	return true
}

// value reads a value inside so many arrays and objects.
func (p *parser) value(depth int) bool {
	var ok bool
	switch c := p.next(); c {
	case '{':
		ok = p.object(depth)
	case '[':
		ok = p.array(depth)
	case '"':
		_, ok = p.str()
	case 't':
		ok = p.word("true")
	case 'f':
		ok = p.word("false")
	case 'n':
		ok = p.word("null")
	default:
		ok = p.number()
	}
	return ok
}

const notJSON = "is not valid JSON"

func (p *parser) word(word string) bool {
	if !bytes.HasPrefix(p.text[p.at:], []byte(word)) {
		return p.refuse(notJSON)
	}
	p.at += len(word)
	p.out = append(p.out, word...)
	return true
}

// open reads a bracket; more is false for an empty array or object.
func (p *parser) open(depth int, bracket, closing byte) (more, ok bool) {
	if depth == MaxDepth {
		return false, p.refuse("is nested too deeply: the limit is " + strconv.Itoa(MaxDepth) + " levels")
	}
	p.at++
	p.out = append(p.out, bracket)
	if p.next() != closing {
		return true, true
	}
	p.at++
	p.out = append(p.out, closing)
	return false, true
}

// following reads a comma or the closing bracket.
func (p *parser) following(closing byte) (more, ok bool) {
	c := p.next()
	if c != ',' && c != closing {
		return false, p.refuse(notJSON)
	}
	p.at++
	p.out = append(p.out, c)
	return c == ',', true
}

func (p *parser) array(depth int) bool {
	more, ok := p.open(depth, '[', ']')
	for i := 0; more && ok; i++ {
		if !p.value(depth + 1) {
			p.path = append(p.path, strconv.Itoa(i))
			return false
		}
		more, ok = p.following(']')
	}
	return ok
}

// object reads an object and sorts its members if necessary.
func (p *parser) object(depth int) bool {
	first, sorted := len(p.members), true
	more, ok := p.open(depth, '{', '}')
	for more && ok {
		m := member{start: len(p.out)}
		if !p.name(&m) {
			return false
		}
		if !p.value(depth + 1) {
			p.path = append(p.path, p.nameOf(m))
			return false
		}
		m.end = len(p.out)
		sorted = sorted && (len(p.members) == first || p.order(p.members[len(p.members)-1], m) < 0)
		p.members = append(p.members, m)
		more, ok = p.following('}')
	}
	ok = ok && (sorted || p.sort(p.members[first:]))
	p.members = p.members[:first]
	return ok
}

// name reads a name and its colon.
func (p *parser) name(m *member) bool {
	if p.next() != '"' {
		return p.refuse(notJSON)
	}
	escapes, ok := p.str()
	if !ok {
		return false
	}
	m.colon = len(p.out)
	m.name = m.colon - m.start - len(`""`) - escapes
	if p.next() != ':' {
		return p.refuse(notJSON)
	}
	p.at++
	p.out = append(p.out, ':')
	return true
}

func (p *parser) nameOf(m member) string { return string(unescape(p.out[m.start+1 : m.colon-1])) }

// order compares two members by canonical order.
func (p *parser) order(a, b member) int {
	if c := cmp.Compare(a.name, b.name); c != 0 {
		return c
	}
	return compareNames(p.out[a.start+1:a.colon-1], p.out[b.start+1:b.colon-1])
}

// compareNames is order for names as they are written.
func compareNames(a, b []byte) int {
	a, b = unescape(a), unescape(b)
	return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b))
}

// sort sorts the members of the current object and refuses duplicate names.
func (p *parser) sort(members []member) bool {
	from := members[0].start
	slices.SortFunc(members, p.order)
	p.moved = p.moved[:0]
	for i, m := range members {
		if i > 0 && p.order(members[i-1], m) == 0 {
			p.path = append(p.path, p.nameOf(m))
			return p.refuse("is a duplicate name")
		}
		p.moved = append(append(p.moved, p.out[m.start:m.end]...), ',')
	}
	copy(p.out[from:], p.moved[:len(p.moved)-1])
	return true
}

// plain are the bytes that a string contains unescaped.
var plain = func() (table [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// str reads a string. escapes is the number of bytes that escaping adds.
func (p *parser) str() (escapes int, ok bool) {
	text, from := p.text, p.at // the quote is copied with the text after it
	i := from + 1
	for i < len(text) {
		c := text[i]
		switch {
		case plain[c]:
			i++
		case c == '"':
			i++
			p.out = append(p.out, text[from:i]...)
			p.at = i
			return escapes, true
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				return 0, p.refuse("is not valid UTF-8")
			}
			i += size
		case c == '\\':
			p.out = append(p.out, text[from:i]...)
			p.at = i
			more, ok := p.escape()
			if !ok {
				return 0, false
			}
			escapes += more
			i = p.at
			from = i
		default:
			return 0, p.refuse("contains an unescaped control character in a string")
		}
	}
	return 0, p.refuse(notJSON)
}

// escape reads an escape and writes the character in canonical spelling; more is the number of bytes that escaping
// adds.
func (p *parser) escape() (more int, ok bool) {
	if p.at+1 >= len(p.text) {
		return 0, p.refuse(notJSON)
	}
	r := rune(p.text[p.at+1])
	p.at += 2
	switch r {
	case '"', '\\', '/':
	case 'b':
		r = '\b'
	case 'f':
		r = '\f'
	case 'n':
		r = '\n'
	case 'r':
		r = '\r'
	case 't':
		r = '\t'
	case 'u':
		if r, ok = p.hex(); !ok {
			return 0, false
		}
	default:
		return 0, p.refuse(notJSON)
	}
	before := len(p.out)
	p.out = appendEscaped(p.out, r)
	return len(p.out) - before - utf8.RuneLen(r), true
}

// hex reads the digits after \u, and the second half of a surrogate pair.
func (p *parser) hex() (rune, bool) {
	r, ok := hex4(p.text[p.at:])
	if !ok {
		return 0, p.refuse(notJSON)
	}
	p.at += 4
	if r == 0 {
		return 0, p.refuse("contains the character U+0000, which cannot be stored")
	}
	if !utf16.IsSurrogate(r) {
		return r, true
	}
	if rest := p.text[p.at:]; len(rest) > 2 && rest[0] == '\\' && rest[1] == 'u' {
		second, _ := hex4(rest[2:])
		if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
			p.at += 6
			return r, true
		}
	}
	return 0, p.refuse("contains an unpaired surrogate in a string")
}

func hex4(text []byte) (r rune, ok bool) {
	if len(text) < 4 {
		return 0, false
	}
	for _, c := range text[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

var shortEscapes = [utf8.RuneSelf]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

func appendEscaped(out []byte, r rune) []byte {
	switch {
	case r < utf8.RuneSelf && shortEscapes[r] != 0:
		return append(out, '\\', shortEscapes[r])
	case r < ' ':
		return append(out, '\\', 'u', '0', '0', "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
	}
	return utf8.AppendRune(out, r)
}

func appendString(out []byte, s string) []byte {
	out = append(out, '"')
	for _, r := range s {
		out = appendEscaped(out, r)
	}
	return append(out, '"')
}

// unescape returns a string's content; it copies only if something is escaped.
func unescape(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		if s[i] == 'u' {
			r, _ := hex4(s[i+1:])
			out = append(out, byte(r)) // only control characters below space are spelled this way
			i += 4
			continue
		}
		out = append(out, byte(bytes.IndexByte(shortEscapes[:], s[i])))
	}
	return out
}
