package httpapi

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-faster/jx"

	ss "holdfast/internal/syncstorage"
)

// decoder reads the bodies of PUT and POST. Payloads are decoded into one
// buffer: unescaped they are never longer than the body.
type decoder struct {
	body     []byte
	payloads []byte
}

func newDecoder(body []byte) *decoder { return &decoder{body: body} }

// errBody is any fault of a body as a whole; what exactly does not travel.
var errBody = ss.ErrBody

// record reads the body of a PUT: one object. Its id is optional and of no
// effect, because the path says it.
func (d *decoder) record(id string) (ss.Item, error) {
	it, err := d.document(d.body)
	it.ID = id
	return it, err
}

// list reads the body of a POST in JSON: a list of objects with distinct ids.
func (d *decoder) list() ([]ss.Item, error) {
	if !wellFormed(d.body) {
		return nil, errBody
	}
	j := jx.DecodeBytes(d.body)
	var items []ss.Item
	seen := ids{}
	elements, err := j.ArrIter()
	if err != nil {
		return nil, errBody
	}
	for elements.Next() {
		it, err := d.object(j)
		if err != nil || !seen.add(it.ID) {
			return nil, errBody
		}
		items = append(items, it)
	}
	if elements.Err() != nil || !atEnd(j) {
		return nil, errBody
	}
	return items, nil
}

// lines reads the body of a POST in application/newlines: an object a line.
// No line at all is a list without elements; an empty line is a fault.
func (d *decoder) lines() ([]ss.Item, error) {
	var items []ss.Item
	seen := ids{}
	rest := d.body
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		it, err := d.document(bytes.TrimSuffix(line, []byte{'\r'}))
		if err != nil || !seen.add(it.ID) {
			return nil, errBody
		}
		items = append(items, it)
	}
	return items, nil
}

// ids are those of one request, which must not repeat. An empty one is no id.
type ids map[string]struct{}

func (s ids) add(id string) bool {
	if _, repeated := s[id]; repeated || id == "" {
		return false
	}
	s[id] = struct{}{}
	return true
}

// document reads a text that is one object.
func (d *decoder) document(text []byte) (ss.Item, error) {
	if !wellFormed(text) {
		return ss.Item{}, errBody
	}
	j := jx.DecodeBytes(text)
	it, err := d.object(j)
	if err != nil || !atEnd(j) {
		return ss.Item{}, errBody
	}
	return it, nil
}

// atEnd reports whether nothing but white space is left.
func atEnd(j *jx.Decoder) bool { return errors.Is(j.Skip(), io.EOF) }

// wellFormed reports whether a text is UTF-8 and every surrogate in its escapes
// has its other half. The decoder would put U+FFFD in place of a lone one, and
// the client would get back something else than it stored.
func wellFormed(text []byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i+1 >= len(text) {
			return true
		}
		high := surrogate(text[i:])
		switch {
		case high == 0:
			text = text[i+2:] // any other escape, an escaped backslash too
		case high < 0xdc00 && surrogate(text[i+6:]) >= 0xdc00:
			text = text[i+12:]
		default:
			return false
		}
	}
}

// surrogate is the code unit of an escape at the start of the text, if it is a
// surrogate, and 0 otherwise.
func surrogate(text []byte) uint64 {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil || unit < 0xd800 || unit > 0xdfff {
		return 0
	}
	return unit
}

// object reads one object. A syntax error is the body's; a wrong type or an
// unknown key is the record's, and becomes its Reason. The first wins.
func (d *decoder) object(j *jx.Decoder) (ss.Item, error) {
	var it ss.Item
	fail := func(reason string) {
		if it.Reason == "" {
			it.Reason = reason
		}
	}
	fields, err := j.ObjIter()
	if err != nil {
		return it, errBody
	}
	var seen uint
	for fields.Next() {
		key := string(fields.Key())
		bit, known := keys[key]
		if seen&bit != 0 {
			// Two ids cannot be listed as failed under one: refuse the body.
			if key == "id" {
				return it, errBody
			}
			fail("invalid json: repeated field " + key)
		}
		seen |= bit
		ok := true
		switch {
		case !known:
			fail("unknown field " + printable(key))
			err = j.Skip()
		case key == "id":
			it.ID, ok, err = text(j)
			if !ok {
				return it, errBody
			}
		case key == "payload":
			ok, err = d.payload(j, &it.Payload)
		case key == "sortindex":
			it.SortIndex, ok, err = integer(j)
		case key == "ttl":
			it.TTL, ok, err = integer(j)
			ok = ok && it.TTL.Value >= 0
		default: // modified and collection: ignored, whatever they are
			err = j.Skip()
		}
		if err != nil {
			return it, errBody
		}
		if !ok {
			fail("invalid json")
		}
	}
	if fields.Err() != nil {
		return it, errBody
	}
	return it, nil
}

// keys are those that an object may have, with a bit each.
var keys = map[string]uint{"id": 1, "payload": 2, "sortindex": 4, "ttl": 8, "modified": 16, "collection": 32}

// printable cuts an unknown key to what can stand in an answer and a log.
func printable(key string) string {
	if len(key) > 64 {
		key = key[:64]
	}
	quoted := strconv.QuoteToASCII(key)
	return quoted[1 : len(quoted)-1]
}

// text reads a string; ok is false when it is something else.
func text(j *jx.Decoder) (s string, ok bool, err error) {
	if j.Next() != jx.String {
		return "", false, j.Skip()
	}
	s, err = j.Str()
	return s, true, err
}

// payload reads a string or null into v.
func (d *decoder) payload(j *jx.Decoder, v *ss.Optional[[]byte]) (ok bool, err error) {
	switch j.Next() {
	case jx.Null:
		return true, j.Null()
	case jx.String:
	default:
		return false, j.Skip()
	}
	if d.payloads == nil {
		d.payloads = make([]byte, 0, len(d.body))
	}
	from := len(d.payloads)
	if d.payloads, err = j.StrAppend(d.payloads); err != nil {
		return false, err
	}
	*v = ss.Some(d.payloads[from:len(d.payloads):len(d.payloads)])
	return true, nil
}

// integer reads a number without fraction and exponent, or null. Whole numbers
// that do not fit are cut to the ends of int64, which no bound allows.
func integer(j *jx.Decoder) (v ss.Optional[int64], ok bool, err error) {
	switch j.Next() {
	case jx.Null:
		return v, true, j.Null()
	case jx.Number:
	default:
		return v, false, j.Skip()
	}
	raw, err := j.Raw()
	if err != nil {
		return v, false, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return v, false, nil
	}
	return ss.Some(n), true, nil
}
