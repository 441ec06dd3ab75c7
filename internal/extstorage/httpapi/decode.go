package httpapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// scanner splits JSON into parts without decoding them. It checks the structure only as far as it needs to find the
// ends.
type scanner struct {
	text []byte
	at   int
}

// next skips white space and returns the next byte, 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\n', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

// skip consumes c if it is next.
func (s *scanner) skip(c byte) bool {
	if s.next() != c {
		return false
	}
	s.at++
	return true
}

// str returns a string with its quotes, or nil.
func (s *scanner) str() []byte {
	if s.next() != '"' {
		return nil
	}
	start := s.at
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return s.text[start:s.at]
		}
	}
	s.at = len(s.text)
	return nil
}

// element returns the next value as it is written.
func (s *scanner) element() []byte {
	s.next()
	start := s.at
	s.toEnd()
	return bytes.TrimRight(s.text[start:s.at], " \n\t\r")
}

// toEnd moves to the end of a value.
func (s *scanner) toEnd() {
	for depth := 0; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '"':
			if s.str() == nil {
				return
			}
			s.at--
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return
			}
			depth--
		case ',':
			if depth == 0 {
				return
			}
		}
	}
}

// atEnd reports whether only white space is left.
func (s *scanner) atEnd() bool { return s.next() == 0 && s.at == len(s.text) }

// member is a member of an object, not yet decoded.
type member struct {
	name string
	raw  []byte
}

// fields reads an object's members. The first error is kept, so that callers check it once.
type fields struct {
	members []member
	err     error
}

// parseFields reads an object. Members other than known are errors.
func parseFields(text []byte, known ...string) *fields {
	f := &fields{}
	s := scanner{text: text}
	if !s.skip('{') {
		f.err = invalid("", notObject(&s))
		return f
	}
	for more := !s.skip('}'); more && f.err == nil; more = !s.skip('}') {
		if len(f.members) > 0 && !s.skip(',') {
			f.err = invalid("", notJSON)
			return f
		}
		f.member(&s, known)
	}
	if f.err == nil && !s.atEnd() {
		f.err = invalid("", "is followed by extra data after the JSON object")
	}
	return f
}

const notJSON = "is not valid JSON"

// notObject explains why a text is not an object.
func notObject(s *scanner) string {
	switch c := s.next(); {
	case c == 0 && s.at == len(s.text):
		return "is empty: expected a JSON object"
	case strings.IndexByte(`["-0123456789`, c) >= 0, slices.Contains([]string{"true", "false", "null"}, string(s.text[s.at:])):
		return "must be a JSON object"
	}
	return notJSON + ": expected a JSON object"
}

// member reads a member, and refuses a repeated name.
func (f *fields) member(s *scanner, known []string) {
	quoted := s.str()
	name, err := unquote(quoted)
	if quoted == nil || err == nil && !s.skip(':') {
		f.err = invalid("", notJSON)
		return
	}
	if err != nil {
		f.err = invalid("", "has a member whose name "+reasonOf(err))
		return
	}
	raw := s.element()
	switch {
	case !slices.Contains(known, name):
		f.unknown(name, known)
	case f.has(name):
		f.fail(name, "is a duplicate name")
	default:
		f.members = append(f.members, member{name, raw})
	}
}

// unknown notes an unknown member. A long name is not repeated in the error.
func (f *fields) unknown(name string, known []string) {
	const notMember = "is not a member of this object"
	reason := notMember
	if len(known) > 0 && len(known) <= maxListed {
		reason += ": expected " + strings.Join(known, ", ")
	}
	if len(name) > maxEcho {
		f.note(invalid("", "has an unknown member"+strings.TrimPrefix(reason, notMember)))
		return
	}
	f.fail(name, reason)
}

const maxListed = 10

// unquote decodes a JSON string of at most maxText bytes.
func unquote(raw []byte) (string, error) {
	v, err := canonjson.Parse(raw, maxText)
	if err != nil {
		return "", err
	}
	if v[0] != '"' {
		return "", errNotString
	}
	if inner := string(v[1 : len(v)-1]); strings.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	var s string
	if json.Unmarshal([]byte(v), &s) != nil {
		return "", errNotString
	}
	return s, nil
}

var errNotString = &ext.ValidationError{Reason: "must be a string"}

// reasonOf words an error for clients.
func reasonOf(err error) string {
	if errcode.Is(err, errcode.TooLarge) {
		return "must be at most " + strconv.Itoa(maxText) + " bytes long"
	}
	return err.Error()
}

// only notes members that are not known; nil allows all.
func (f *fields) only(known []string) {
	for _, m := range f.members {
		if known != nil && !slices.Contains(known, m.name) {
			f.unknown(m.name, known)
		}
	}
}

// fault returns the first error.
func (f *fields) fault() error { return f.err }

// note keeps the first error.
func (f *fields) note(err error) {
	if f.err == nil {
		f.err = err
	}
}

// fail notes an error for a member.
func (f *fields) fail(name, reason string) { f.note(invalid(pointerTo(name), reason)) }

// lack notes that the object lacks a member. hint, if not "", describes the member.
func (f *fields) lack(name, hint string) { f.note(ext.Lack(name, hint)) }

// need notes the first of the names that the object lacks.
func (f *fields) need(names ...string) {
	for _, name := range names {
		if !f.has(name) {
			f.lack(name, "")
		}
	}
}

// find returns a member as it is written.
func (f *fields) find(name string) ([]byte, bool) {
	for i := range f.members {
		if f.members[i].name == name {
			return f.members[i].raw, true
		}
	}
	return nil, false
}

func (f *fields) has(name string) bool {
	_, ok := f.find(name)
	return ok
}

// Longest string in a request, in bytes, other than in values.
const maxText = 8 << 10

// text returns "" for a missing member.
func (f *fields) text(name string) string {
	raw, ok := f.find(name)
	if !ok {
		return ""
	}
	s, err := unquote(raw)
	if err != nil {
		f.fail(name, reasonOf(err))
	}
	return s
}

// number returns "" for a missing member.
func (f *fields) number(name string) canonjson.Number {
	raw, ok := f.find(name)
	if !ok {
		return ""
	}
	n, err := canonjson.ParseNumber(raw)
	if errcode.Is(err, errcode.TooLarge) {
		err = invalid("", "must be a number of at most 400 digits")
	}
	if err != nil {
		f.note(under(pointerTo(name), err))
	}
	return n
}

// integer accepts a whole number in any spelling, e.g. 1.0 or 1e0.
func (f *fields) integer(name string, minimum, maximum int64) (n ext.Optional[int64]) {
	if !f.has(name) {
		return n
	}
	raw, _ := f.find(name)
	number, refused := canonjson.ParseNumber(raw)
	i, err := strconv.ParseInt(string(number), 10, 64)
	if refused != nil || err != nil || i < minimum || i > maximum {
		f.fail(name, notInteger(minimum, maximum))
	}
	return ext.Some(i)
}

// flag returns false for a missing member.
func (f *fields) flag(name string) bool {
	raw, ok := f.find(name)
	switch v := string(raw); {
	case !ok || v == "false":
		return false
	case v == "true":
		return true
	}
	f.fail(name, "must be true or false")
	return false
}

// value returns a member in canonical form, at most limit bytes long, or "" if it is missing.
func (f *fields) value(name string, limit int) canonjson.Value {
	raw, ok := f.find(name)
	if !ok {
		return ""
	}
	v, err := canonjson.Parse(raw, limit)
	if err != nil {
		f.note(under(pointerTo(name), err))
	}
	return v
}

// list returns a required list. Elements beyond most are only counted for the error: a body could contain a million.
func (f *fields) list(name string, maxElements int) (elements [][]byte) {
	raw, ok := f.find(name)
	s := scanner{text: raw}
	switch {
	case !ok:
		f.lack(name, "a JSON array")
		return nil
	case !s.skip('['):
		f.fail(name, "must be a JSON array")
		return nil
	}
	n := 0
	for more := !s.skip(']'); more; more = !s.skip(']') {
		if n > 0 && !s.skip(',') {
			f.fail(name, notJSON)
			return nil
		}
		raw := s.element()
		if n++; n <= maxElements {
			elements = append(elements, raw)
		}
	}
	switch {
	case !s.atEnd():
		f.fail(name, notJSON)
	case n > maxElements:
		f.note(&ext.LimitError{Pointer: pointerTo(name), Limit: int64(maxElements), Size: int64(n), Unit: "items"})
	}
	return elements
}
