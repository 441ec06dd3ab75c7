package guest

import (
	"context"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"holdfast/internal/errcode"
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

	// Backups are the known backups that may have data of the session.
	Backups []Backup `json:"backups"`
}

// Backup is a backup of the database.
type Backup struct {
	Path string    `json:"path"`
	At   time.Time `json:"at"`
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
	if err := s.opts.Hot.UnblockMirror(ctx, id); err != nil {
		return e, err
	}
	e.Backups, err = s.backupsSince(id.Time())
	return e, err
}

// OnErase registers what else forgets a session before it is erased. Call it before the service
// is used.
func (s *Service) OnErase(forget func(ID)) { s.forget = append(s.forget, forget) }

// backupsSince returns the backups that were made after a session began.
func (s *Service) backupsSince(began time.Time) ([]Backup, error) {
	if s.opts.Backups == nil {
		return []Backup{}, nil
	}
	all, err := s.opts.Backups()
	if err != nil {
		return nil, errcode.Wrap(errcode.Unavailable, "the data was deleted, but the known backups cannot be read: see the server log", err)
	}
	return append([]Backup{}, slices.DeleteFunc(all, func(b Backup) bool { return b.At.Before(began.Add(-clockError)) })...), nil
}
