package guest

import (
	"encoding/json"

	"holdfast/internal/errcode"
)

// Once is the result of an idempotent step; repeats get the first result.
type Once[R any] struct {
	Result   R
	Replayed bool
}

// StoredAnswer is an encoded result, kept for repeated requests.
type StoredAnswer struct {
	Version int    // of the encoding
	Body    []byte // sealed if the mutation has a Sealer
}

// answerVersion is the version of the encoding that Encode writes.
const answerVersion = 1

// Encode returns the result as backends store it.
func (m *Mutation) Encode(result any) (StoredAnswer, error) {
	body, err := json.Marshal(result)
	if err != nil {
		return StoredAnswer{}, errcode.Wrap(errcode.Internal, "encode the result of a mutation", err)
	}
	return StoredAnswer{Version: answerVersion, Body: m.seal(body)}, nil
}

// Begin starts a mutation. a is the answer that the store keeps for its key; found is false for a key without an answer,
// or with one older than MutationLife. If its key already has an answer, Begin returns it and sets done; same reports whether the
// digests match. After an error the step must not run.
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

// decodeAnswer reverses Encode. A result from a later release is errcode.Unavailable: a retry may reach a process that
// knows it.
func decodeAnswer[R any](m *Mutation, a StoredAnswer) (o Once[R], err error) {
	if a.Version != answerVersion {
		return o, errcode.Newf(errcode.Unavailable, "a later release handled this request: its response has the unknown version %d", a.Version)
	}
	body, err := m.unseal(a.Body)
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(body, &o.Result); err != nil {
		return o, errcode.Wrap(errcode.Internal, "decode the stored result of a mutation", err)
	}
	o.Replayed = true
	return o, nil
}
