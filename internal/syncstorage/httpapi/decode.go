package httpapi

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-faster/jx"

	ss "holdfast/internal/syncstorage"
)

// decoder reads the body of a PUT or POST, which it overwrites.
type decoder struct {
	body []byte
	json jx.Decoder

	// payloads holds all payloads one after the other, at the start of the body:
	// unescaped they are never longer than what has been read of it.
	payloads []byte

	most   int64               // records in a list
	charge func(n int64) error // called before n more bytes are allocated for records
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
		if items, err = d.append(items, it); err != nil {
			return nil, err
		}
	}
	return items, nil
}

const (
	// itemStep is how many records are charged to the budget of memory at once. Fewer
	// than that, which most requests have, are not: slots bound them.
	itemStep = 128

	// itemBytes is what a record takes besides its payload, as BenchmarkManyRecords
	// measures it (893): places in lists that grow by appending, in the set of ids, and
	// in the answer.
	itemBytes = 896

	// listedPerWritten is how many records a POST may have for each that it may write.
	// Those that are too many come back as failed, which clients expect of some.
	listedPerWritten = 100
)

// append appends a record, if there may be one more and there is memory for it.
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

// atEnd reports whether nothing but white space is left.
func (d *decoder) atEnd() bool { return errors.Is(d.json.Skip(), io.EOF) }
