package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

// Users verifies tokens of a site's signed-in users. It is safe for concurrent use.
type Users interface {
	// User returns the user's ID, or ErrUserToken for a token that is not valid at now, as *UserError if only the ID is
	// wrong.
	User(token string, now time.Time) (string, error)
}

// MaxUser is the maximum length of a user ID.
const MaxUser = 128

// ExpectedUser describes a valid user ID in errors.
var ExpectedUser = fmt.Sprintf("expected 1 to %d printable ASCII characters without spaces", MaxUser)

// UserProblem returns the rule that a user ID breaks, as the rest of a sentence that begins with its name, or "" for a
// valid ID. It does not quote the ID, because errors are logged.
func UserProblem(s string) string {
	if s == "" {
		return "is empty"
	}
	for i, c := range s {
		switch {
		case c == ' ':
			return fmt.Sprintf("has a space (byte %d)", i+1)
		case c < ' ' || c == '\x7f':
			return fmt.Sprintf("has a control character (byte %d)", i+1)
		case c > '~':
			return fmt.Sprintf("has a character that is not ASCII (byte %d)", i+1)
		}
	}
	if len(s) > MaxUser {
		return fmt.Sprintf("has %d characters", len(s))
	}
	return ""
}

// UserError refuses a token for a user ID that breaks a rule. It wraps ErrUserToken.
type UserError struct {
	Problem string // see UserProblem
}

func (e *UserError) Error() string {
	return "invalid user token: sub " + e.Problem + ": " + ExpectedUser
}

// Unwrap lets callers treat it like other tokens that are not valid.
func (e *UserError) Unwrap() error { return ErrUserToken }

// User errors.
var (
	ErrNoUsers   = errcode.New(errcode.NotFound, "users cannot sign in: the profile's user_keys is not set")
	ErrUserToken = errcode.New(errcode.Denied, "invalid user token: expected a JWT without kid, signed with one of user_keys, with sub, "+
		"aud holdfast-guest, iat, and an exp in the future and at most 10 minutes after iat")
	ErrOtherUser   = errcode.New(errcode.Conflict, "another user is signed in: sign out first, with DELETE /bff/consumer/v1/session/link")
	ErrSignInEnded = errcode.New(errcode.Denied, "the session of this sign-in has ended: sign in again, with a new Idempotency-Key")
	ErrNotLinked   = errcode.New(errcode.Denied, "no user is signed in: POST /bff/consumer/v1/session/link first")
)

// User verifies a token. It returns ErrNoUsers if sign-in is not configured, or ErrUserToken.
func (s *Service) User(token string) (string, error) {
	if s.opts.Users == nil {
		return "", ErrNoUsers
	}
	return s.opts.Users.User(token, s.opts.Clock())
}

// LinkUser joins the mutation's session to the token's user. A repeat may carry an expired token; it returns ErrSignInEnded
// if the user session has ended.
func (s *Service) LinkUser(ctx context.Context, m Mutation, token string) (o Once[Linked], err error) {
	user, err := s.User(token)
	if errors.Is(err, ErrNoUsers) {
		return o, err
	}
	m.Denied = err
	now := s.opts.Clock()
	l := Link{m, user, NewID(UserSessionPrefix, now), NewID(SessionPrefix, now), NewID(EventPrefix, now)}
	list, found, err := s.opts.Store.UserList(ctx, user)
	if err != nil {
		return o, err
	}
	blocked := found && s.opts.Hot.BlockMirror(ctx, list) == nil
	if found && !blocked {
		s.mirrors.distrust(list)
	}
	o, err = onWishlist(ctx, s, m, func() (Once[Linked], error) { return s.opts.Store.LinkUser(ctx, l) })
	after := context.WithoutCancel(ctx)
	if found {
		s.dropMirror(after, list, blocked)
	}
	if err == nil && o.Replayed {
		var live bool
		if _, live, err = s.opts.Store.UserSession(after, o.Result.Session); err == nil && !live {
			err = ErrSignInEnded
		}
	}
	if err != nil || o.Replayed {
		return o, err
	}
	if o.Result.List != list { // a concurrent request won
		s.dropMirror(after, o.Result.List, false)
	}
	if !s.opts.Degraded.Without("session", s.carry(after, m.Session, o.Result.List)) {
		err = s.dropHot(after, m.Session, o.Result.Answers)
	}
	if s.opts.Degraded.Without("session", err) {
		s.mirrors.clear(m.Session, o.Result.Answers)
		err = nil
	}
	return o, err
}

// carry adds a session's hot state to a user's: unset preferences, viewed items, and attributes. It fails only if hot
// state is unavailable.
func (s *Service) carry(ctx context.Context, from, to ID) error {
	session, err := s.opts.Hot.Session(ctx, from, Change{ReadAttributes: true})
	if err != nil {
		return err
	}
	user, err := s.opts.Hot.Session(ctx, to, Change{ReadAttributes: true})
	if err != nil {
		return err
	}
	var c Change
	for _, p := range []struct {
		was, is string
		change  **string
	}{{user.Locale, session.Locale, &c.Locale}, {user.Currency, session.Currency, &c.Currency}, {user.Campaign, session.Campaign, &c.Campaign}} {
		if p.was == "" && p.is != "" {
			*p.change = &p.is
		}
	}
	if c != (Change{}) {
		if _, err := s.opts.Hot.Session(ctx, to, c); err != nil {
			return err
		}
	}
	if err := s.carryAttributes(ctx, session.Attributes, user); err != nil {
		return err
	}
	viewed, err := s.opts.Hot.Items(ctx, from, RecentlyViewed)
	for _, item := range slices.Backward(viewed) {
		if err == nil {
			err = s.opts.Hot.Push(ctx, to, RecentlyViewed, item)
		}
	}
	return err
}

// carryAttributes merges attributes by the list merge rule, unless the profile does not allow the result or the
// user's attributes change concurrently.
func (s *Service) carryAttributes(ctx context.Context, from Attributes, user Session) error {
	rule := s.opts.Profile.site().merge()
	if from.Value == "" || rule == MergeKeep && user.Attributes.Value != "" {
		return nil
	}
	first, second := from.Object(), user.Attributes.Object()
	if rule == MergeNewest {
		first, second = second, first
	}
	next, err := s.patched(ctx, Attributes{Value: first}, second)
	if err != nil {
		if _, full := errors.AsType[*AttributesFullError](err); full || errcode.Is(err, errcode.Invalid) {
			return nil
		}
		if _, malformed := errors.AsType[*canonjson.Error](err); malformed {
			return nil
		}
		return err
	}
	_, err = s.opts.Hot.PutAttributes(ctx, user.ID, user.Attributes.Version, next)
	return err
}

// UserSession reads a session. See UserStore.
func (s *Service) UserSession(ctx context.Context, id ID) (UserSession, bool, error) {
	return s.opts.Store.UserSession(ctx, id)
}

// UserSessions lists sessions. See UserStore.
func (s *Service) UserSessions(ctx context.Context, q UserSessionQuery) ([]UserSession, error) {
	return s.opts.Store.UserSessions(ctx, q)
}

// EndUserSessions signs users out. See UserStore.
func (s *Service) EndUserSessions(ctx context.Context, e EndUserSessions) (int, error) {
	return s.opts.Store.EndUserSessions(ctx, e)
}
