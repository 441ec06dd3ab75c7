package jsonschema

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"holdfast/internal/canonjson"
)

// decode parses JSON, with numbers as json.Number. canonjson rejects input that encoding/json would accept: duplicate
// members, invalid UTF-8, any depth, and numbers that the library converts to fractions with millions of digits.
func decode(text []byte) (any, error) {
	v, err := canonjson.Parse(text, MaxBytes)
	if errors.Is(err, canonjson.ErrTooLarge) {
		return nil, pointer(nil).refuse("is too large: the limit is " + strconv.Itoa(MaxBytes) + " bytes")
	}
	if err != nil {
		return nil, err
	}
	return decodeValue(v)
}

// decodeValue parses a stored value.
func decodeValue(value canonjson.Value) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(string(value)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, pointer(nil).refuse("is not valid JSON")
	}
	return v, nil
}
