package handoffs

import (
	"context"

	"holdfast/internal/errcode"
)

// MintRoute is the route whose answers contain tokens. The answers are encrypted in the database and in Redis, so
// that nobody with access to either or to a backup can consume a handoff.
const MintRoute = "POST /handoff/{tenantId}/{propertyId}"

// sealedMark is the first byte of an encrypted body. Plain bodies start with a brace.
const sealedMark = 1

var errSealed = errcode.New(errcode.Internal, "a stored answer was encrypted with another guest.handoff_secret: restore it, or add it to guest.old_handoff_secrets")

// Seal implements guest.Sealer.
func (k *Keys) Seal(body []byte, key string) []byte {
	return append([]byte{sealedMark}, k.answers.Seal(body, key)...)
}

// Unseal implements guest.Sealer.
func (k *Keys) Unseal(body []byte, key string) ([]byte, error) {
	if len(body) == 0 || body[0] != sealedMark {
		return body, nil
	}
	plain, ok := k.answers.Open(body[1:], key)
	if !ok {
		return nil, errSealed
	}
	return plain, nil
}

// AnswerStore rewrites stored mutation answers.
type AnswerStore interface {
	// Answers returns up to limit answers for a route, ordered by composite key. Their key is above after, and their
	// body starts with begins.
	Answers(ctx context.Context, route string, begins byte, after string, limit int) ([]KeyedAnswer, error)

	// ReplaceBodies replaces bodies that still equal Old.
	ReplaceBodies(ctx context.Context, all []NewBody) error
}

// KeyedAnswer is a stored answer.
type KeyedAnswer struct {
	Key  string
	Body []byte
}

// NewBody replaces a stored answer body.
type NewBody struct {
	Key      string
	Old, New []byte
}

// sealStep is in answers per transaction.
const sealStep = 500

// SealAnswers encrypts answers that an earlier release stored in plain text, and returns how many. Call it at server
// start.
func (s *Service) SealAnswers(ctx context.Context) (sealed int, err error) {
	for after := ""; ; {
		all, err := s.opts.Store.Answers(ctx, MintRoute, '{', after, sealStep)
		if err != nil {
			return sealed, err
		}
		bodies := make([]NewBody, len(all))
		for i, a := range all {
			bodies[i] = NewBody{a.Key, a.Body, s.opts.Keys.Seal(a.Body, a.Key)}
		}
		if len(bodies) > 0 {
			if err := s.opts.Store.ReplaceBodies(ctx, bodies); err != nil {
				return sealed, err
			}
		}
		sealed += len(bodies)
		if len(all) < sealStep {
			return sealed, nil
		}
		after = all[len(all)-1].Key
	}
}
