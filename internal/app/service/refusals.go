package service

import "errors"

// Refusals map errors to reasons for operators, where the status alone is ambiguous. The first match counts.
type Refusals []Refusal

// Refusal pairs an error with its reason.
type Refusal struct {
	Err    error
	Reason string // from a small fixed set, for metrics
}

// Reason returns the reason for an error, or "". It is a web.Service.Reason.
func (r Refusals) Reason(err error) string {
	for _, refusal := range r {
		if errors.Is(err, refusal.Err) {
			return refusal.Reason
		}
	}
	return ""
}
