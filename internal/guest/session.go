package guest

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"holdfast/internal/errcode"
)

// Begin starts a session. Hot state may be unavailable: the cookie proves the session.
func (s *Service) Begin(ctx context.Context, c Change) (Session, error) {
	return s.Session(ctx, NewID(SessionPrefix, s.opts.Clock()), c)
}

// Session applies c to a verified session. Lost or unavailable state means no preferences.
func (s *Service) Session(ctx context.Context, id ID, c Change) (Session, error) {
	session, err := s.opts.Hot.Session(ctx, id, c)
	if s.opts.Degraded.Without("session", err) {
		return Session{ID: id, Created: id.Time()}, nil
	}
	return session, err
}

// Degraded counts operations that continue without hot state. nil counts nothing. what is in Degradations. It may be
// called concurrently.
type Degraded func(what string)

// Without reports and counts whether an operation may continue without hot state after err.
func (d Degraded) Without(what string, err error) bool {
	if !errcode.Is(err, errcode.Unavailable) {
		return false
	}
	if d != nil {
		d(what)
	}
	return true
}

// Degradations are Degraded's arguments.
var Degradations = []string{"session", "list", "mirror", "answer", "rate", "suspended", "cache", "bot"}

// SetPreferences returns ErrLocale or ErrCurrency for invalid values. It fails without hot state, because nothing else
// stores preferences.
func (s *Service) SetPreferences(ctx context.Context, id ID, c Change) (Session, error) {
	if c.Locale != nil && !IsLocale(*c.Locale) {
		return Session{}, ErrLocale
	}
	if c.Currency != nil && !IsCurrency(*c.Currency) {
		return Session{}, ErrCurrency
	}
	return s.opts.Hot.Session(ctx, id, c)
}

// Errors for preferences and request IDs.
var (
	ErrLocale   = BadMember(ExpectedLocale, "locale")
	ErrCurrency = BadMember(ExpectedCurrency, "currency")
	ErrTenant   = BadMember(ExpectedUUID, "tenantId")

	ErrSearchExpired = errcode.New(errcode.NotFound, "the search session has expired: search again")
)

// Error details for members and parameters.
const (
	ExpectedLocale   = "expected a language tag such as de-AT"
	ExpectedCurrency = "expected three capital letters such as EUR"
	ExpectedUUID     = "expected a UUID"
)

// IsLocale accepts subtags of 1–8 letters and digits; the first must be 2 or 3 letters.
func IsLocale(s string) bool {
	if len(s) > 35 {
		return false
	}
	n, first := 0, true
	for i := 0; i <= len(s); i++ {
		if i == len(s) || s[i] == '-' {
			if n == 0 || n > 8 || first && (n < 2 || n > 3) {
				return false
			}
			n, first = 0, false
			continue
		}
		letter := 'a' <= s[i]|0x20 && s[i]|0x20 <= 'z'
		if !letter && (first || s[i] < '0' || s[i] > '9') {
			return false
		}
		n++
	}
	return true
}

// IsCurrency accepts three capital letters.
func IsCurrency(s string) bool {
	return len(s) == 3 && !slices.ContainsFunc([]byte(s), func(c byte) bool { return c < 'A' || c > 'Z' })
}

// Viewed is an entry in the list of viewed items.
type Viewed struct {
	TenantID string    `json:"tenantId"`
	ItemID   string    `json:"propertyId"` // JSON name in hot state
	ViewedAt time.Time `json:"viewedAt"`
}

// AddViewed puts an item at the front of the viewed items.
func (s *Service) AddViewed(ctx context.Context, id ID, tenant, item string) (Viewed, error) {
	var ok bool
	v := Viewed{ViewedAt: s.opts.Clock().UTC().Truncate(time.Millisecond)}
	if v.TenantID, ok = s.opts.Profile.ParseTenant(tenant); !ok {
		return v, ErrTenant
	}
	if v.ItemID, ok = s.opts.Profile.ParseItem(item); !ok {
		return v, BadMember(s.opts.Profile.ExpectedItem(), s.opts.Profile.Member())
	}
	return v, s.push(ctx, id, RecentlyViewed, ItemKey(v.ItemID), v) // keys have no spaces
}

// push encodes and stores an item.
func (s *Service) push(ctx context.Context, id ID, list List, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode an item", err)
	}
	return s.opts.Hot.Push(ctx, id, list, Item{Key: key, Value: text})
}

// Viewed returns the viewed items, latest first; none without hot state.
func (s *Service) Viewed(ctx context.Context, id ID) ([]Viewed, error) {
	return items[Viewed](ctx, s, id, RecentlyViewed)
}

// items decodes a list; none without hot state.
func items[T any](ctx context.Context, s *Service, id ID, list List) ([]T, error) {
	stored, err := s.opts.Hot.Items(ctx, id, list)
	if s.opts.Degraded.Without("list", err) {
		return nil, nil
	}
	all := make([]T, len(stored))
	for i, item := range stored {
		if err := json.Unmarshal(item.Value, &all[i]); err != nil {
			return nil, errcode.Wrap(errcode.Internal, "decode an item", err)
		}
	}
	return all, err
}

// Searched is an entry in the search history.
type Searched struct {
	SearchID   ID              `json:"searchId"`
	Query      json.RawMessage `json:"query"`
	SearchedAt time.Time       `json:"searchedAt"`
}

// BeginSearch starts a search session and puts its query at the front of the history, which lists equal queries (with
// the same key) once. A search that cannot be stored is not an error: it just cannot be continued.
func (s *Service) BeginSearch(ctx context.Context, session ID, key string, query json.RawMessage) (Search, error) {
	now := s.opts.Clock().UTC().Truncate(time.Millisecond)
	search := Search{ID: NewID(SearchPrefix, now), Session: session, Query: query, Created: now}
	err := s.opts.Hot.PutSearch(ctx, search)
	if err == nil {
		err = s.push(ctx, session, SearchHistory, key, Searched{search.ID, query, now})
	}
	if s.opts.Degraded.Without("list", err) {
		return search, nil
	}
	return search, err
}

// Search returns ErrSearchExpired for a search that is unknown or belongs to another session.
func (s *Service) Search(ctx context.Context, session, id ID) (Search, error) {
	search, found, err := s.opts.Hot.Search(ctx, id)
	if err == nil && (!found || search.Session != session) {
		err = ErrSearchExpired
	}
	return search, err
}

// History returns the searches, latest first; none without hot state.
func (s *Service) History(ctx context.Context, id ID) ([]Searched, error) {
	return items[Searched](ctx, s, id, SearchHistory)
}

// Clear is a request to clear a session.
type Clear struct{ Mutation }

// Cleared is the result of Clear.
type Cleared struct {
	Answers []string `json:"-"` // composite keys of deleted answers; nil if replayed
}

// Clear deletes a session's data and starts a new session. Handoffs stay, so that none is consumed twice.
func (s *Service) Clear(ctx context.Context, m Mutation) (next Session, o Once[Cleared], err error) {
	o, err = onWishlist(ctx, s, m, func() (Once[Cleared], error) { return s.opts.Store.Clear(ctx, Clear{m}) })
	if err != nil {
		return next, o, err
	}
	err = s.dropHot(ctx, m.Session, o.Result.Answers)
	if s.opts.Degraded.Without("session", err) {
		s.mirrors.clear(m.Session, o.Result.Answers)
	} else if err != nil {
		return next, o, err
	}
	next, err = s.Begin(ctx, Change{})
	return next, o, err
}

// LoseHot deletes a session's hot state as if it were lost.
func (s *Service) LoseHot(ctx context.Context, id ID) error { return s.dropHot(ctx, id, nil) }

// dropHot deletes a session's hot state with its searches and answers. The history names the searches, so it is read
// first.
func (s *Service) dropHot(ctx context.Context, id ID, answers []string) error {
	history, err := s.opts.Hot.Items(ctx, id, SearchHistory)
	if err != nil {
		return err
	}
	searches := make([]ID, len(history))
	for i, item := range history {
		var h Searched
		if err := json.Unmarshal(item.Value, &h); err != nil {
			return errcode.Wrap(errcode.Internal, "decode an item", err)
		}
		searches[i] = h.SearchID
	}
	if err := s.opts.Hot.DropSession(ctx, id, searches); err != nil {
		return err
	}
	return s.opts.Hot.DropAnswers(ctx, answers)
}
