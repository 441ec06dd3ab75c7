package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
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

// decode reads a schema document into maps, slices, strings, booleans, nil and
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
	if reason := excess(token, len(at)); reason != "" {
		return nil, at.refuse(reason)
	}
	if token, ok := token.(json.Delim); ok {
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

// decodeValue reads a value. It is twice as fast as decode, and leaves to the
// room what that has refused long before: duplicate members, bad text.
func decodeValue(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, pointer(nil).refuse("is not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, pointer(nil).refuse("is not JSON: there is more text")
	}
	if err := bounded(v, make(pointer, 0, MaxDepth)); err != nil {
		return nil, err
	}
	return v, nil
}

// bounded refuses depth and numbers out of bounds. The result is nil or an
// *Error, as an error.
func bounded(v any, at pointer) error {
	if reason := excess(v, len(at)); reason != "" {
		return at.refuse(reason)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) { // so that the first one is always the same
			if err := bounded(v[name], append(at, name)); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			switch item.(type) {
			case json.Number, []any, map[string]any:
				if err := bounded(item, append(at, strconv.Itoa(i))); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// excess tells what is too much of a value, or of a token that begins one, at a
// depth; or "".
func excess(v any, depth int) string {
	switch v := v.(type) {
	case json.Number:
		if len(v) > maxNumber || exponent(v) > maxExponent {
			return "is a number with too many digits"
		}
	case json.Delim, []any, map[string]any:
		if depth == MaxDepth {
			return "is nested too deeply"
		}
	}
	return ""
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
