package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a number. The library makes fractions of integers of it, which
// refuse exponents of a million by returning nil, and are slow long before.
const (
	maxNumber   = 1_024 // bytes of its text
	maxExponent = 1_024
)

// decode reads a JSON text into maps, slices, strings, booleans, nil and
// json.Number. Unlike encoding/json it refuses duplicate members, depth over
// MaxDepth, text that is not UTF-8, and numbers out of bounds. Every error is
// an *Error.
func decode(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, pointer(nil).refuse("is not UTF-8")
	}
	d := decoder{json: json.NewDecoder(bytes.NewReader(text))}
	d.json.UseNumber()
	v, err := d.value(make(pointer, 0, MaxDepth))
	if err != nil {
		return nil, err
	}
	if _, err := d.json.Token(); !errors.Is(err, io.EOF) {
		return nil, pointer(nil).refuse("is followed by more text")
	}
	return v, nil
}

type decoder struct{ json *json.Decoder }

// value reads the next value, which stands at at.
func (d decoder) value(at pointer) (any, error) {
	token, err := d.json.Token()
	if err != nil {
		return nil, at.refuse("is not JSON")
	}
	switch token := token.(type) {
	case json.Number:
		if len(token) > maxNumber || exponent(token) > maxExponent {
			return nil, at.refuse("is a number with too many digits")
		}
	case json.Delim:
		if len(at) == MaxDepth {
			return nil, at.refuse("is nested too deeply")
		}
		if token == '{' {
			return d.object(at)
		}
		return d.array(at)
	}
	return token, nil
}

// object reads the members and the closing brace. The pointer's space is used
// again for the next member: only an error keeps it, as text.
func (d decoder) object(at pointer) (any, error) {
	object := map[string]any{}
	for d.json.More() {
		name, err := d.json.Token()
		if err != nil {
			return nil, at.refuse("is not JSON")
		}
		member := append(at, name.(string))
		if _, ok := object[name.(string)]; ok {
			return nil, member.refuse("is there twice")
		}
		if object[name.(string)], err = d.value(member); err != nil {
			return nil, err
		}
	}
	if _, err := d.json.Token(); err != nil {
		return nil, at.refuse("is not JSON")
	}
	return object, nil
}

// array reads the items and the closing bracket.
func (d decoder) array(at pointer) (any, error) {
	array := []any{}
	for d.json.More() {
		item, err := d.value(append(at, strconv.Itoa(len(array))))
		if err != nil {
			return nil, err
		}
		array = append(array, item)
	}
	if _, err := d.json.Token(); err != nil {
		return nil, at.refuse("is not JSON")
	}
	return array, nil
}

// exponent is the size of the exponent that a number is written with, and more
// than any bound when it does not fit an int.
func exponent(n json.Number) int {
	i := strings.IndexAny(string(n), "eE")
	if i < 0 {
		return 0
	}
	e, err := strconv.Atoi(string(n[i+1:]))
	if err != nil {
		return maxExponent + 1
	}
	return max(e, -e)
}
