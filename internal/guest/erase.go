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

	// Remains says where the database may have deleted content still. In a SQLite file and its
	// WAL nothing remains.
	Remains []string `json:"remains"`
}

// EventPage is how many events a backend reads at once to find those of a session.
const EventPage = 20_000

// clockError is by how much the clocks of processes may differ.
const clockError = 10 * time.Minute

// Begun returns a time before which no process has stored anything of a session.
func (id ID) Begun() time.Time { return id.Time().Add(-clockError) }

// FirstEvent returns an ID that is less than those of all events of a session.
func FirstEvent(session ID) string {
	var first ulid.ULID // with random bits that are zero
	_ = first.SetTime(ulid.Timestamp(session.Begun()))
	return EventPrefix + first.String()
}

// ErrSessionID is returned for what is not the ID of a session.
var ErrSessionID = BadParameter("expected gms_ and a ULID", "session")

// Erase deletes what is stored about a session: its wishlist, handoffs, answers, scores and
// published events, its preferences and lists. Its open handoffs become void. If an error
// is returned, some of it may be left, and Erase should be repeated. Unlike Clear it does
// not need the guest's cookie, which continues to be valid.
func (s *Service) Erase(ctx context.Context, session string) (Erased, error) {
	id, ok := ParseID(SessionPrefix, session)
	if !ok {
		return Erased{}, ErrSessionID
	}
	if err := s.opts.Hot.BlockMirror(ctx, id); err != nil {
		return Erased{}, err
	}
	for _, forget := range s.forget {
		forget(id)
	}
	e, answers, err := s.opts.Store.Erase(ctx, id)
	if err != nil {
		return Erased{}, err
	}
	if err := s.dropHot(ctx, id, answers); err != nil {
		return e, err
	}
	return e, s.opts.Hot.UnblockMirror(ctx, id)
}

// OnErase registers what else forgets a session before it is erased. Call it before the service
// is used.
func (s *Service) OnErase(forget func(ID)) { s.forget = append(s.forget, forget) }
