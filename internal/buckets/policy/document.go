package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"
)

// member is a member of a JSON object, in the order of the document.
type member struct {
	name  string
	value any
}

// maxDepth limits nesting.
const maxDepth = 8

// readJSON is stricter than encoding/json, which accepts duplicate names and ignores case.
func readJSON(document []byte) ([]member, error) {
	if !utf8.Valid(document) {
		return nil, errors.New("the document is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	v, err := readValue(d, maxDepth)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the document")
	}
	object, ok := v.([]member)
	if !ok {
		return nil, errors.New("the document is not a JSON object")
	}
	return object, nil
}

// readValue reads a value of at most depth levels. Objects become []member, lists []any.
func readValue(d *json.Decoder, depth int) (any, error) {
	if depth == 0 {
		return nil, errors.New("the document is nested too deeply")
	}
	token, err := d.Token()
	if err != nil {
		return nil, errors.New("the document is not valid JSON")
	}
	switch token {
	case json.Delim('{'):
		return readObject(d, depth)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := readValue(d, depth-1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, end(d)
	}
	return token, nil
}

// readObject reads the rest of an object, and rejects duplicate names.
func readObject(d *json.Decoder, depth int) (any, error) {
	object, seen := []member{}, map[string]bool{}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, errors.New("the document is not valid JSON")
		}
		if seen[name] {
			return nil, errors.New("the member " + strconv.Quote(name) + " occurs twice")
		}
		seen[name] = true
		v, err := readValue(d, depth-1)
		if err != nil {
			return nil, err
		}
		object = append(object, member{name, v})
	}
	return object, end(d)
}

// end reads the closing bracket.
func end(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return errors.New("the document is not valid JSON")
	}
	return nil
}

// stringsOf accepts a string or a list of strings that is not empty, as IAM does.
func stringsOf(v any) ([]string, bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case []any:
		all := make([]string, len(v))
		for i := range v {
			s, ok := v[i].(string)
			if !ok {
				return nil, false
			}
			all[i] = s
		}
		return all, len(all) > 0
	}
	return nil, false
}
