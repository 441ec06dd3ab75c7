package service

import "errors"

// Refusals map errors to reasons of refused requests. They are for operators, where the
// status alone does not say what to do.
type Refusals []struct {
	Err    error
	Reason string
}

// Reasons returns all reasons, for Opened.Reasons.
func (r Refusals) Reasons() (all []string) {
	for _, one := range r {
		all = append(all, one.Reason)
	}
	return all
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
