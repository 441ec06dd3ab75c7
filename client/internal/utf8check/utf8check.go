// Package utf8check finds strings that JSON cannot represent. encoding/json would replace their invalid bytes without a
// word, so that the server would store another value than the caller's.
package utf8check

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// InvalidError is a string with invalid UTF-8 in a value that should be sent.
type InvalidError struct {
	Place string // e.g. "titles[2]"; "" is the value itself
}

// Error names the place, without the text, which may be secret.
func (e *InvalidError) Error() string {
	if e.Place == "" {
		return "the text is not valid UTF-8"
	}
	return e.Place + " is not valid UTF-8"
}

// Check returns an *InvalidError for the first string in v, also a key of a map, that is not valid UTF-8. It looks where
// encoding/json looks; values that encode themselves are their own concern, except json.RawMessage. encoding/json refuses
// cycles, at which Check stops.
func Check(v any) error { return check(reflect.ValueOf(v), "", 0) }

// deepest is more than encoding/json encodes before it looks for cycles.
const deepest = 2000

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	raw           = reflect.TypeFor[json.RawMessage]()
	number        = reflect.TypeFor[json.Number]()
)

// check looks into v, which is at a place; depth counts the values around it.
func check(v reflect.Value, place string, depth int) error {
	switch {
	case !v.IsValid(), depth > deepest:
		return nil
	case v.Type() == raw:
		if !utf8.Valid(v.Bytes()) {
			return &InvalidError{place}
		}
		return nil
	case v.Type() == number, v.Type().Implements(marshaler), v.Type().Implements(textMarshaler):
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return &InvalidError{place}
		}
	case reflect.Pointer, reflect.Interface:
		return check(v.Elem(), place, depth+1)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 { // sent as base64, or as numbers
			return nil
		}
		for i := range v.Len() {
			if err := check(v.Index(i), fmt.Sprintf("%s[%d]", place, i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		for at := v.MapRange(); at.Next(); {
			if err := check(at.Key(), below(place, "a key"), depth+1); err != nil {
				return err
			}
			if err := check(at.Value(), below(place, fmt.Sprint(at.Key())), depth+1); err != nil {
				return err
			}
		}
	case reflect.Struct:
		return checkFields(v, place, depth)
	default: // numbers and booleans; encoding/json refuses the rest
	}
	return nil
}

// checkFields looks into the fields that encoding/json sends, under their JSON names.
func checkFields(v reflect.Value, place string, depth int) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		at := below(place, f.Name)
		switch {
		case name != "":
			at = below(place, name)
		case f.Anonymous:
			at = place
		}
		if err := check(v.Field(i), at, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// below returns the place of a member, e.g. "title" or "book.title".
func below(place, name string) string {
	if place == "" {
		return name
	}
	return place + "." + name
}
