package extstorage

import "holdfast/internal/canonjson"

// ValidationError is something in a request that is not as it must be: a name, a
// number, a value, a result. Its pointer leads to the place in the request.
type ValidationError = canonjson.Error

func refuse(reason string) *ValidationError { return &ValidationError{Reason: reason} }

// ParseMetadata reads metadata, which is an object.
func ParseMetadata(text []byte, limit int) (canonjson.Value, error) {
	v, err := canonjson.Parse(text, limit)
	if err == nil && v[0] != '{' {
		return "", refuse("must be an object")
	}
	return v, err
}
