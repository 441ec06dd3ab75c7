package httpapi

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-faster/jx"

	ss "holdfast/internal/syncstorage"
)

// decoder reads the body of a PUT or POST.
type decoder struct {
	body []byte
	json jx.Decoder

	// payloads holds all payloads one after the other: unescaped they are never
	// longer than the body.
	payloads []byte
}

// errBody is any fault of a body as a whole; what exactly does not travel.
var errBody = ss.ErrBody

// record reads the body of a PUT: one object. Its id is optional and of no
// effect, because the path says it; but it must be one.
func (d *decoder) record(id string) (ss.Item, error) {
	it, named, err := d.document(d.body)
	if err != nil || named && !ss.ValidID(it.ID) {
		return ss.Item{}, errBody
	}
	it.ID = id
	return it, nil
}

// list reads the body of a POST in JSON: a list of objects with distinct ids.
func (d *decoder) list() ([]ss.Item, error) {
	if !faithful(d.body) {
		return nil, errBody
	}
	d.json.ResetBytes(d.body)
	elements, err := d.json.ArrIter()
	if err != nil {
		return nil, errBody
	}
	var items []ss.Item
	seen := ids{}
	for elements.Next() {
		it, named, err := d.object()
		if err != nil || !named || !seen.add(it.ID) {
			return nil, errBody
		}
		items = append(items, it)
	}
	if elements.Err() != nil || !d.atEnd() {
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
		it, named, err := d.document(bytes.TrimSuffix(line, []byte{'\r'}))
		if err != nil || !named || !seen.add(it.ID) {
			return nil, errBody
		}
		items = append(items, it)
	}
	return items, nil
}

// ids are those of one request, which must not repeat: neither of two records
// with one id could be listed as failed.
type ids map[string]struct{}

func (s ids) add(id string) bool {
	n := len(s)
	s[id] = struct{}{}
	return len(s) > n
}

// document reads a text that is one object.
func (d *decoder) document(text []byte) (it ss.Item, named bool, err error) {
	if !faithful(text) {
		return it, false, errBody
	}
	d.json.ResetBytes(text)
	it, named, err = d.object()
	if err != nil || !d.atEnd() {
		return it, false, errBody
	}
	return it, named, nil
}

// atEnd reports whether nothing but white space is left.
func (d *decoder) atEnd() bool { return errors.Is(d.json.Skip(), io.EOF) }

// object reads one object; named says that it has an id. A syntax error, or an
// id that is no string, is the body's; any other wrong type and an unknown key
// are the record's, and become its Reason. The first wins.
func (d *decoder) object() (it ss.Item, named bool, err error) {
	fail := func(reason string) {
		if it.Reason == "" {
			it.Reason = reason
		}
	}
	fields, err := d.json.ObjIter()
	if err != nil {
		return it, false, errBody
	}
	var seen field
	for fields.Next() {
		f := fieldOf(fields.Key())
		if seen&f != 0 {
			if f == fieldID {
				return it, false, errBody
			}
			fail("invalid json")
		}
		seen |= f
		ok := true
		switch f {
		case fieldID:
			it.ID, named, err = d.id()
		case fieldPayload:
			it.Payload, ok, err = d.payload()
		case fieldSortIndex:
			it.SortIndex, ok, err = d.integer()
		case fieldTTL:
			it.TTL, ok, err = d.integer()
			ok = ok && it.TTL.Value >= 0
		case fieldUnknown:
			fail("unknown field " + clip(fields.Key()))
			fallthrough
		default:
			err = d.json.Skip()
		}
		if err != nil {
			return it, false, errBody
		}
		if !ok {
			fail("invalid json")
		}
	}
	if fields.Err() != nil {
		return it, false, errBody
	}
	return it, named, nil
}

// field is a key that an object may have once, as a bit; unknown ones have none.
type field uint8

const (
	fieldID field = 1 << iota
	fieldPayload
	fieldSortIndex
	fieldTTL
	fieldModified // this one and the next are legal and of no effect
	fieldCollection

	fieldUnknown field = 0
)

func fieldOf(key []byte) field {
	switch string(key) {
	case "id":
		return fieldID
	case "payload":
		return fieldPayload
	case "sortindex":
		return fieldSortIndex
	case "ttl":
		return fieldTTL
	case "modified":
		return fieldModified
	case "collection":
		return fieldCollection
	}
	return fieldUnknown
}

// clip cuts an unknown key to what can stand in an answer.
func clip(key []byte) string {
	return strings.ToValidUTF8(string(key[:min(len(key), 64)]), "")
}

// id reads an id; null is none.
func (d *decoder) id() (id string, named bool, err error) {
	switch d.json.Next() {
	case jx.Null:
		return "", false, d.json.Null()
	case jx.String:
		id, err = d.json.Str()
		return id, true, err
	}
	return "", false, errBody
}

// payload reads a string or null; ok is false when it is something else.
func (d *decoder) payload() (v ss.Optional[[]byte], ok bool, err error) {
	switch d.json.Next() {
	case jx.Null:
		return v, true, d.json.Null()
	case jx.String:
	default:
		return v, false, d.json.Skip()
	}
	if d.payloads == nil {
		d.payloads = make([]byte, 0, len(d.body))
	}
	from := len(d.payloads)
	if d.payloads, err = d.json.StrAppend(d.payloads); err != nil {
		return v, false, err
	}
	return ss.Some(d.payloads[from:len(d.payloads):len(d.payloads)]), true, nil
}

// integer reads a number without fraction and exponent, or null. Whole numbers
// that do not fit are cut to the ends of int64, which no bound allows.
func (d *decoder) integer() (v ss.Optional[int64], ok bool, err error) {
	switch d.json.Next() {
	case jx.Null:
		return v, true, d.json.Null()
	case jx.Number:
	default:
		return v, false, d.json.Skip()
	}
	raw, err := d.json.Raw()
	if err != nil {
		return v, false, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return v, false, nil
	}
	return ss.Some(n), true, nil
}
