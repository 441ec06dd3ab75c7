package httpapi

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-faster/jx"

	ss "holdfast/internal/syncstorage"
)

// decoder parses the body of a PUT or POST, and overwrites it.
type decoder struct {
	body []byte
	json jx.Decoder

	// payloads holds all payloads in sequence, at the start of the body: unescaped
	// they are never longer than the text parsed so far.
	payloads []byte

	most   int64               // maximum number of records in a list
	charge func(n int64) error // called before n more bytes are allocated for records
}

// errBody is the error for any invalid body; clients get no details.
var errBody = ss.ErrBody

// record parses the body of a PUT: one object. Its id is optional and ignored,
// because the path determines it, but must be valid.
func (d *decoder) record(id string) (ss.Item, error) {
	it, named, err := d.document(d.body)
	if err != nil || named && !ss.ValidID(it.ID) {
		return ss.Item{}, errBody
	}
	it.ID = id
	return it, nil
}

// list parses the body of a POST in JSON: a list of objects with distinct IDs.
func (d *decoder) list() ([]ss.Item, error) {
	if !isRoundTripSafe(d.body) {
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
		if items, err = d.append(items, it); err != nil {
			return nil, err
		}
	}
	if elements.Err() != nil || !d.atEnd() {
		return nil, errBody
	}
	return items, nil
}

// lines parses the body of a POST in application/newlines: one object per line. A
// body without lines is an empty list; an empty line is an error.
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
		if items, err = d.append(items, it); err != nil {
			return nil, err
		}
	}
	return items, nil
}

const (
	// itemStep is how many records are charged to the memory budget at once. Lists
	// with fewer records, which most requests have, are not charged: slots limit
	// them.
	itemStep = 128

	// itemBytes is the memory of a record without its payload, as
	// BenchmarkManyRecords measures it (893): elements of lists that grow by
	// appending, of the set of IDs, and of the answer.
	itemBytes = 896

	// listedPerWritten is how many records a POST may list for each record that it
	// may write. The surplus is reported as failed, which clients can handle.
	listedPerWritten = 100
)

// append appends a record if the limit and the memory budget allow it.
func (d *decoder) append(items []ss.Item, it ss.Item) ([]ss.Item, error) {
	if int64(len(items)) == d.most {
		return nil, errManyRecords
	}
	if len(items)%itemStep == itemStep-1 {
		if err := d.charge(itemStep * itemBytes); err != nil {
			return nil, err
		}
	}
	return append(items, it), nil
}

// ids are the IDs of one request, which must be unique: the failed list could not
// distinguish two records with the same ID.
type ids map[string]struct{}

func (s ids) add(id string) bool {
	n := len(s)
	s[id] = struct{}{}
	return len(s) > n
}

// document parses a text that is one object.
func (d *decoder) document(text []byte) (it ss.Item, named bool, err error) {
	if !isRoundTripSafe(text) {
		return it, false, errBody
	}
	d.json.ResetBytes(text)
	it, named, err = d.object()
	if err != nil || !d.atEnd() {
		return it, false, errBody
	}
	return it, named, nil
}

// atEnd reports whether only white space is left. Skip alone does not tell: a value
// that is cut off ends with io.EOF too.
func (d *decoder) atEnd() bool {
	return d.json.Next() == jx.Invalid && errors.Is(d.json.Skip(), io.EOF)
}
