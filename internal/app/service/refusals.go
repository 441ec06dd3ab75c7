package service

import "errors"

// Refusals map errors to reasons for operators, where the status alone is ambiguous. The first match counts.
type Refusals []Refusal

type Refusal struct {
	Err    error
	Reason string
}

func (r Refusals) Reason(err error) string {
	for _, one := range r {
		if errors.Is(err, one.Err) {
			return one.Reason
		}
	}
	return ""
}
