package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/handoffs"
)

// sessionView omits the ID, so that no page leaks it.
type sessionView struct {
	CreatedAt   time.Time       `json:"createdAt"`
	UserID      string          `json:"userId,omitempty"` // "" if no user is signed in
	Preferences preferencesView `json:"preferences"`
}

// preferencesView holds the session's locale and currency, "" if unset.
type preferencesView struct {
	Locale   string `json:"locale,omitempty"`
	Currency string `json:"currency,omitempty"`
}

// sendSession answers with a session, and its attributes if they were read.
func (x *exchange) sendSession(status int, s guest.Session) error {
	a, err := jsonAnswer(status, sessionView{s.Created, x.user.User, preferencesView{s.Locale, s.Currency}})
	if v := s.Attributes.Value; err == nil && v != "" { // large and already canonical: encoding it again would dominate the request
		a.Body = slices.Grow(a.Body, len(`,"attributes":`)+len(v))
		a.Body = append(append(append(a.Body[:len(a.Body)-2], `,"attributes":`...), v...), "}\n"...)
	}
	if err == nil {
		send(x.out, a)
	}
	return err
}

// beginSession starts a session, or renews the cookie if there is one. A suspect gets a session too: only bots are
// refused.
func (x *exchange) beginSession() error {
	if err := x.evaluate(); errors.Is(err, bots.ErrHardBlock) {
		return err
	}
	if x.session != "" {
		x.setCookie(x.cookie)
		return x.getSession()
	}
	s, err := x.Guests.Begin(x.ctx(), x.campaign())
	if err != nil {
		return err
	}
	x.start(s)
	return x.sendSession(http.StatusCreated, s)
}

// getSession answers with the session.
func (x *exchange) getSession() error {
	change := x.campaign()
	change.ReadAttributes = true
	s, err := x.Guests.Session(x.ctx(), x.session, change)
	if err != nil {
		return err
	}
	return x.sendSession(http.StatusOK, s)
}

// maxCampaign is in characters; longer campaign headers are cut.
const maxCampaign = 100

// campaign reads the X-Campaign headers. Too long ones are cut.
func (x *exchange) campaign() (c guest.Change) {
	all := map[string]string{}
	for _, part := range []string{"Source", "Medium", "Name"} {
		if text := []rune(strings.ToValidUTF8(x.in.Header.Get("X-Campaign-"+part), "")); len(text) > 0 {
			all[strings.ToLower(part)] = string(text[:min(len(text), maxCampaign)])
		}
	}
	if text, err := json.Marshal(all); err == nil && len(all) > 0 && len(text) <= handoffs.MaxCampaign {
		c.Campaign = new(string(text))
	}
	return c
}

// setPreferences changes locale and currency; missing members stay.
func (x *exchange) setPreferences() error {
	var patch guest.Change
	if err := decode(x.body, &patch); err != nil {
		return err
	}
	patch.ReadAttributes = true
	s, err := x.Guests.SetPreferences(x.ctx(), x.session, patch)
	if err != nil {
		return err
	}
	return x.sendSession(http.StatusOK, s)
}

// clear ends the session. A repeated request finds no session but gets a new cookie, in case the first answer was
// lost. A signed-in user stays signed in, with an empty list.
func (x *exchange) clear() error {
	next, o, err := x.Guests.Clear(x.ctx(), x.mutation)
	switch {
	case err == nil && x.user.ID != "":
		x.setCookie(x.cookie)
	case err == nil:
		x.start(next)
	}
	return reply(x, o, err, noContent)
}
