package guest

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"
)

// Erased is what was erased of a session, in rows, and what stays. An event has the ID of
// the session, which is random and means nothing without the guest's cookie.
type Erased struct {
	Wishes    int `json:"wishes"`
	Handoffs  int `json:"handoffs"`
	Answers   int `json:"answers"`
	BotScores int `json:"botScores"`
	Events    int `json:"events"`
	Kept      int `json:"keptEvents"` // audited, or not published yet
}

// EventPage is how many events a backend reads at once to find those of a session.
const EventPage = 20_000

// clockError is by how much the clocks of processes may differ.
const clockError = 10 * time.Minute

// FirstEvent returns an ID that is less than those of all events of a session.
func FirstEvent(session ID) string {
	var first ulid.ULID // with random bits that are zero
	_ = first.SetTime(ulid.Timestamp(session.Time().Add(-clockError)))
	return EventPrefix + first.String()
}

// ErrSessionID is returned for what is not the ID of a session.
var ErrSessionID = badParameter("expected gms_ and a ULID", "session")

// Erase deletes what is stored about a session: its wishlist, handoffs, answers, scores and
// published events, its preferences and lists. Its open handoffs become void. If an error
// is returned, some of it may be left, and Erase should be repeated. Unlike Clear it does
// not need the guest's cookie, which continues to be valid.
func (s *Service) Erase(ctx context.Context, session string) (Erased, error) {
	id, ok := ParseID(SessionPrefix, session)
	if !ok {
		return Erased{}, ErrSessionID
	}
	if err := s.Hot.BlockMirror(ctx, id); err != nil {
		return Erased{}, err
	}
	s.observed.drop(id)
	e, answers, err := s.Store.Erase(ctx, id)
	if err != nil {
		return Erased{}, err
	}
	if err := s.dropHot(ctx, id, answers); err != nil {
		return e, err
	}
	return e, s.Hot.UnblockMirror(ctx, id)
}
