package httpapi

import (
	"net/http"
	"time"

	"holdfast/internal/guest"
)

// linkView says how the lists were merged.
type linkView struct {
	Added   int `json:"added"`
	Changed int `json:"changed"`
	Dropped int `json:"dropped"`
}

// linkSession replaces the cookie, so that nobody who knew the old cookie can access the user's data.
func (x *exchange) linkSession() error {
	var in struct {
		Token string `json:"token"`
	}
	if err := decode(x.body, &in); err != nil {
		return err
	}
	if x.user.ID != "" {
		return x.linkAgain(in.Token)
	}
	o, err := x.Guests.LinkUser(x.ctx(), x.mutation, in.Token)
	if err == nil {
		x.setCookie(o.Result.Session)
	}
	return reply(x, o, err, func(r guest.Linked) (answer, error) {
		return jsonAnswer(http.StatusOK, linkView{r.Added, r.Changed, r.Dropped})
	})
}

// linkAgain answers a request to sign in from a session that is already linked: 200 without effect for the same user,
// and otherwise guest.ErrOtherUser.
func (x *exchange) linkAgain(token string) error {
	user, err := x.Guests.User(token)
	if err == nil && user != x.user.User {
		err = guest.ErrOtherUser
	}
	if err == nil && !x.mutation.Guard.IsZero() {
		var all []guest.Wish
		if all, err = x.Guests.AllWishes(x.ctx(), x.session); err == nil {
			err = x.mutation.Guard.Check(guest.ListTag(all))
		}
	}
	return reply(x, guest.Once[guest.Linked]{}, err, func(guest.Linked) (answer, error) { return jsonAnswer(http.StatusOK, linkView{}) })
}

// unlinkSession signs the user out and starts a new session: the list stays with the user.
func (x *exchange) unlinkSession() error {
	if x.user.ID != "" {
		if _, err := x.Guests.EndUserSessions(x.ctx(), guest.EndUserSessions{User: x.user.User, Session: x.user.ID}); err != nil {
			return err
		}
	}
	if x.user.ID != "" || x.session == "" {
		s, err := x.Guests.Begin(x.ctx(), guest.Change{})
		if err != nil {
			return err
		}
		x.start(s)
	}
	send(x.out, answer{Status: http.StatusNoContent})
	return nil
}

// userSessionView is a device on which the user signed in.
type userSessionView struct {
	SessionID  guest.ID  `json:"sessionId"`
	LinkedAt   time.Time `json:"linkedAt"`
	LastSeenAt time.Time `json:"lastSeenAt"` // accurate to about a day
	Current    bool      `json:"current"`
}

const maxUserSessions = 100

// listUserSessions lists the user's devices.
func (x *exchange) listUserSessions() error {
	if x.user.ID == "" {
		return guest.ErrNotLinked
	}
	sessions, err := x.Guests.UserSessions(x.ctx(), guest.UserSessionQuery{User: x.user.User, Limit: maxUserSessions})
	views := make([]userSessionView, len(sessions))
	for i, s := range sessions {
		views[i] = userSessionView{s.ID, s.Linked, s.Seen, s.ID == x.user.ID}
	}
	return sendList(x, views, err)
}

// endUserSessions signs the user out on all other devices.
func (x *exchange) endUserSessions() error {
	return x.endSessions(guest.EndUserSessions{Except: x.user.ID})
}

// endUserSession signs the user out on a single device. For sessions that have ended and other users' sessions it answers
// 204 without effect, too.
func (x *exchange) endUserSession() error {
	id, ok := guest.ParseID(guest.UserSessionPrefix, x.route.session)
	if !ok {
		id = "-" // matches no session
	}
	return x.endSessions(guest.EndUserSessions{Session: id})
}

// endSessions ends the sessions that e selects among the signed-in user's, whom it sets in e.
func (x *exchange) endSessions(e guest.EndUserSessions) error {
	if x.user.ID == "" {
		return guest.ErrNotLinked
	}
	e.User = x.user.User
	if _, err := x.Guests.EndUserSessions(x.ctx(), e); err != nil {
		return err
	}
	send(x.out, answer{Status: http.StatusNoContent})
	return nil
}
