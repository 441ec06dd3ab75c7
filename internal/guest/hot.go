package guest

import (
	"context"
	"time"
)

// Session is the hot state of a session.
type Session struct {
	ID      ID
	Created time.Time
	Preferences
}

// Preferences are what a guest has chosen. Empty: nothing.
type Preferences struct {
	Locale   string // BCP 47, such as de-AT
	Currency string // ISO 4217, such as EUR
}

// SessionLife is how long a session that is not used is kept.
const SessionLife = 30 * 24 * time.Hour

// Hot stores sessions while they are used. It may lose any of them at any time: the
// service then begins an empty session under the same ID.
type Hot interface {
	// Session reads a session, and extends its life.
	Session(ctx context.Context, id ID) (s Session, found bool, err error)

	// PutSession stores a session, and extends its life.
	PutSession(ctx context.Context, s Session) error

	// DropSession deletes a session, if there is one.
	DropSession(ctx context.Context, id ID) error
}
