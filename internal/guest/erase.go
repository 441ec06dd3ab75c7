package guest

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"
)

// Erased counts erased and kept rows. Kept events contain only the session's random ID, which identifies nobody
// without the cookie.
type Erased struct {
	Wishes    int `json:"wishes"`
	Handoffs  int `json:"handoffs"`
	Answers   int `json:"answers"` // stored results of mutations
	BotScores int `json:"botScores"`
	Events    int `json:"events"`     // deleted
	Kept      int `json:"keptEvents"` // audited, or not yet published

	// Remains says where the database may still hold deleted content. SQLite files and WALs keep nothing.
	Remains []string `json:"remains"`
}

// EventPage is the number of events that a backend reads at once to find a session's events.
const EventPage = 20_000

// clockError is the tolerated clock difference between processes.
const clockError = 10 * time.Minute

// Begun returns the session's start, minus clockError: nothing about the session was stored earlier.
func (id ID) Begun() time.Time { return id.Time().Add(-clockError) }

// FirstEvent returns an ID below all event IDs of a session.
func FirstEvent(session ID) string {
	var first ulid.ULID
	_ = first.SetTime(ulid.Timestamp(session.Begun()))
	return EventPrefix + first.String()
}

// ErrSessionID rejects invalid session IDs.
var ErrSessionID = BadParameter("expected gms_ and a ULID", "session")

// Erase deletes all data about a session and voids open handoffs. Retry after an error, which may leave data. The
// guest's cookie stays valid.
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

// OnErase registers another function that forgets a session before it is erased. Call it before using the service. The
// functions are called in order, and also concurrently for several sessions.
func (s *Service) OnErase(forget func(ID)) { s.forget = append(s.forget, forget) }
