package handoffs

import (
	"context"

	"holdfast/internal/errcode"
)

// MintRoute is the route of mutations whose answers contain handoff tokens. These answers are
// encrypted in the database and in Redis. A reader of either, or of a backup, cannot consume a
// handoff.
const MintRoute = "POST /handoff/{tenantId}/{propertyId}"

// sealedMark is the first byte of an encrypted body. A body that is not begins with a brace.
const sealedMark = 1

var errSealed = errcode.New(errcode.Internal, "a stored answer was encrypted with another guest.handoff_secret: restore it, or add it to guest.old_handoff_secrets")

// Seal encrypts a body that is stored under a composite key.
func (k *Keys) Seal(body []byte, key string) []byte {
	return append([]byte{sealedMark}, k.answers.Seal(body, key)...)
}

// Unseal decrypts a stored body. A body of an earlier release may not be encrypted.
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

// AnswerStore has the stored answers of mutations.
type AnswerStore interface {
	// Answers returns at most limit stored answers of a route whose body begins with a byte and
	// whose composite key follows after, ordered by key.
	Answers(ctx context.Context, route string, begins byte, after string, limit int) ([]KeyedAnswer, error)

	// ReplaceBodies replaces the bodies of answers that still have the body Old.
	ReplaceBodies(ctx context.Context, all []NewBody) error
}

// KeyedAnswer is the body of a stored answer.
type KeyedAnswer struct {
	Key  string // composite
	Body []byte
}

// NewBody replaces the body of a stored answer.
type NewBody struct {
	Key      string
	Old, New []byte
}

// sealStep is how many answers a transaction encrypts.
const sealStep = 500

// SealAnswers encrypts the answers with tokens that an earlier release has stored, and returns
// their number. Call it when a server starts.
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
