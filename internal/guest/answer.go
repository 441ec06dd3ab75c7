package guest

import (
	"encoding/json"

	"holdfast/internal/errcode"
)

// Once is the result of a step that is done once: a repeated request gets the result of the first.
type Once[R any] struct {
	Result   R
	Replayed bool          // the same request was done before
	Former   *FormerAnswer // if set, an earlier release has done the request, and Result is empty
}

// FormerAnswer is an HTTP response to a mutation. Earlier releases stored it instead of the result
// of the step; it is sent again as it is. None is older than MutationLife.
type FormerAnswer struct {
	Status      int
	ContentType string // "": no body
	Location    string // "": none
	Body        []byte
}

// StoredAnswer is the result of a step as databases and hot state keep it for repeated requests.
type StoredAnswer struct {
	// Version is the version of the encoding of Body. From 100 it is the status of a FormerAnswer.
	Version               int
	ContentType, Location string // of a FormerAnswer
	Body                  []byte
}

const (
	// answerVersion is the version of new answers: Body is the result as JSON.
	answerVersion = 1
	// firstStatus is the least status of an HTTP response.
	firstStatus = 100
)

// Encode returns a result as it is stored.
func (m *Mutation) Encode(result any) (StoredAnswer, error) {
	body, err := json.Marshal(result)
	if err != nil {
		return StoredAnswer{}, errcode.Wrap(errcode.Internal, "encode the result of a mutation", err)
	}
	return StoredAnswer{Version: answerVersion, Body: m.seal(body)}, nil
}

// Begin begins a mutation. If its key has an answer, the result is that of the answer, and done is
// true; same says whether the answered request has the digest of the mutation. An error means
// that the step must not be done.
func Begin[R any](m *Mutation, a StoredAnswer, found, same bool) (o Once[R], done bool, err error) {
	switch {
	case found && !same:
		return o, false, ErrKeyReused
	case found:
		o, err = decodeAnswer[R](m, a)
		return o, true, err
	}
	return o, false, m.Denied
}

func decodeAnswer[R any](m *Mutation, a StoredAnswer) (o Once[R], err error) {
	body, err := m.unseal(a.Body)
	if err != nil {
		return o, err
	}
	switch {
	case a.Version >= firstStatus:
		o.Former = &FormerAnswer{a.Version, a.ContentType, a.Location, body}
	case a.Version != answerVersion:
		return o, errcode.Newf(errcode.Unavailable, "a later release has done this request: its answer has the unknown version %d", a.Version)
	default:
		if err := json.Unmarshal(body, &o.Result); err != nil {
			return o, errcode.Wrap(errcode.Internal, "decode the stored result of a mutation", err)
		}
	}
	o.Replayed = true
	return o, nil
}

// stored returns an answer for hot state.
func (o *Once[R]) stored(m *Mutation) (StoredAnswer, error) {
	if f := o.Former; f != nil {
		return StoredAnswer{Version: f.Status, ContentType: f.ContentType, Location: f.Location, Body: m.seal(f.Body)}, nil
	}
	return m.Encode(o.Result)
}
