package httpapi

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/go-faster/jx"

	ss "holdfast/internal/syncstorage"
)

// object parses an object; named means that it contains an ID. A syntax error, or an ID that is not a string,
// invalidates the body. Other wrong types and unknown keys invalidate only the record; Reason describes the first
// error.
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

type field uint8

const (
	fieldID field = 1 << iota
	fieldPayload
	fieldSortIndex
	fieldTTL
	fieldModified
	fieldCollection

	fieldUnknown field = 0
)

// fieldOf recognizes a record's member.
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

// clip shortens an unknown member's name for an error.
func clip(key []byte) string {
	return strings.ToValidUTF8(string(key[:min(len(key), 64)]), "")
}

// id reads an ID; named is false for null.
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

// payload reads a string; ok is false for other types. null means that it is not set.
func (d *decoder) payload() (v ss.Optional[[]byte], ok bool, err error) {
	switch d.json.Next() {
	case jx.Null:
		return v, true, d.json.Null()
	case jx.String:
	default:
		return v, false, d.json.Skip()
	}
	if d.payloads == nil {
		d.payloads = d.body[:0]
	}
	from := len(d.payloads)
	if d.payloads, err = d.json.StrAppend(d.payloads); err != nil {
		return v, false, err
	}
	return ss.Some(d.payloads[from:len(d.payloads):len(d.payloads)]), true, nil
}

// integer reads a whole number; ok is false for other values. null means that it is not set.
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
	if bytes.ContainsAny(raw, ".eE") {
		return v, false, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return v, false, nil
	}
	return ss.Some(n), true, nil
}
