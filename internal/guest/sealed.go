package guest

import (
	"context"
	"slices"

	"holdfast/internal/fault"
)

// MintRoute is the route of mutations whose answers contain handoff tokens. These answers are
// encrypted in the database and in Redis. A reader of either, or of a backup, cannot consume a
// handoff.
const MintRoute = "POST /handoff/{tenantId}/{propertyId}"

// sealedMark is the first byte of an encrypted body. A body that is not begins with a brace.
const sealedMark = 1

var errSealed = fault.New(fault.Internal, "a stored answer was encrypted with another guest.handoff_secret: restore it, or add it to guest.old_handoff_secrets")

// seal encrypts the body of an answer that is stored under a composite key.
func (k *HandoffKeys) seal(a Answer, key string) Answer {
	a.Body = append([]byte{sealedMark}, k.answers.Seal(a.Body, key)...)
	return a
}

// unseal decrypts the body of a stored answer. One that an earlier release has stored is not
// encrypted.
func (k *HandoffKeys) unseal(a Answer, key string) (Answer, error) {
	if len(a.Body) == 0 || a.Body[0] != sealedMark {
		return a, nil
	}
	body, ok := k.answers.Open(a.Body[1:], key)
	if !ok {
		return Answer{}, errSealed
	}
	a.Body = body
	return a, nil
}

// mutateSealed is Service.mutate for an answer with a token.
func (s *Handoffs) mutateSealed(ctx context.Context, m Mutation, fn func(Tx) (Answer, error)) (a Answer, replayed bool, err error) {
	key := m.CompositeKey()
	a, replayed, err = s.mutate(ctx, m, false, func(tx Tx) (Answer, error) {
		a, err := fn(tx)
		if err != nil {
			return Answer{}, err
		}
		return s.Keys.seal(a, key), nil
	})
	if err != nil {
		return a, replayed, err
	}
	a, err = s.Keys.unseal(a, key)
	return a, replayed, err
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
func (s *Handoffs) SealAnswers(ctx context.Context) (sealed int, err error) {
	for after := ""; ; {
		all, err := s.Store.Answers(ctx, MintRoute, '{', after, sealStep)
		if err != nil {
			return sealed, err
		}
		bodies := make([]NewBody, len(all))
		for i, a := range all {
			bodies[i] = NewBody{a.Key, a.Body, s.Keys.seal(Answer{Body: slices.Clone(a.Body)}, a.Key).Body}
		}
		if len(bodies) > 0 {
			if err := s.Store.ReplaceBodies(ctx, bodies); err != nil {
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
