package service

import "errors"

// Refusals map errors to reasons of refused requests. They are for operators, where the
// status alone does not say what to do. The first one that an error matches counts.
type Refusals []Refusal

// Refusal is a reason to refuse a request.
type Refusal struct {
	Err    error
	Reason string
}

// Reason returns the reason of an error, or "" for any other error.
func (r Refusals) Reason(err error) string {
	for _, one := range r {
		if errors.Is(err, one.Err) {
			return one.Reason
		}
	}
	return ""
}
