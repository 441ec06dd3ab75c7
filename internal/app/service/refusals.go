package service

import "errors"

// Refusals name why a client is not let in, where the status alone does not say
// what an operator would do about it.
type Refusals []struct {
	Err    error
	Reason string
}

// Reasons are all reasons, for Opened.Reasons.
func (r Refusals) Reasons() (all []string) {
	for _, one := range r {
		all = append(all, one.Reason)
	}
	return all
}

// Reason is the reason of an error, "" when it is none of these.
func (r Refusals) Reason(err error) string {
	for _, one := range r {
		if errors.Is(err, one.Err) {
			return one.Reason
		}
	}
	return ""
}
