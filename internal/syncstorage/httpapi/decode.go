package httpapi

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-faster/jx"

	ss "holdfast/internal/syncstorage"
)

type decoder struct {
	body []byte
	json jx.Decoder

	// payloads are unescaped into the start of the body, because they are never longer than the text parsed so far.
	payloads []byte

	most   int64
	charge func(n int64) error // called before n more bytes are allocated
}

var errBody = ss.ErrBody

// record parses the body of a PUT. It ignores a valid id in the body, because the path contains the id.
func (d *decoder) record(id string) (ss.Item, error) {
	it, named, err := d.document(d.body)
	if err != nil || named && !ss.ValidID(it.ID) {
		return ss.Item{}, errBody
	}
	it.ID = id
	return it, nil
}

// list parses a JSON array with records.
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

// lines parses a record per line. Empty lines are malformed, as are records without an ID.
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
	// itemStep is how many records are charged in one step. Shorter lists are free, because slots limit them.
	itemStep = 128

	// itemBytes is a record's memory without its payload (893 in BenchmarkManyRecords): in growing lists, the set of
	// IDs, and the response.
	itemBytes = 896

	// listedPerWritten is how many times more records a POST may list than write. Clients can handle the
	// failure of the surplus.
	listedPerWritten = 100
)

// append adds a record and charges its memory, in steps.
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

// ids detects duplicate ids, which the failed list cannot distinguish.
type ids map[string]struct{}

// add returns false for a duplicate.
func (s ids) add(id string) bool {
	n := len(s)
	s[id] = struct{}{}
	return len(s) > n
}

// document parses a JSON text with a single record.
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

// atEnd reports whether only white space is left.
func (d *decoder) atEnd() bool {
	return d.json.Next() == jx.Invalid && errors.Is(d.json.Skip(), io.EOF)
}
