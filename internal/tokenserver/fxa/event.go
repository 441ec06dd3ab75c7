package fxa

import (
	"context"
	"errors"

	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"

	"holdfast/internal/tokenserver"
)

const (
	// Event types in Mozilla's security event tokens.
	deleteUser     = "https://schemas.accounts.firefox.com/event/delete-user"
	passwordChange = "https://schemas.accounts.firefox.com/event/password-change"
)

// eventClaims are the claims of a security event token (RFC 8417).
type eventClaims struct {
	Subject  string                     `json:"sub"`
	Issuer   string                     `json:"iss"`
	Audience jwt.Audience               `json:"aud"`
	Events   map[string]json.RawMessage `json:"events"`
}

// Events implements tokenserver.Verifier. Events have no expiry, so none is checked.
func (c *Client) Events(ctx context.Context, token string) ([]tokenserver.Event, error) {
	if c.audience == "" || c.issuer == "" {
		return nil, refused("events are not configured")
	}
	if len(token) > maxToken {
		return nil, refused("the token is too long")
	}
	t, err := parse(token)
	if err != nil {
		return nil, asRefusal(err)
	}
	var cl eventClaims
	if err := c.open(ctx, t, &cl); err != nil {
		return nil, asRefusal(err)
	}
	switch {
	case cl.Issuer != c.issuer:
		return nil, refused("the event has another issuer")
	case !cl.Audience.Contains(c.audience):
		return nil, refused("the event is for another client")
	case cl.Subject == "":
		return nil, refused("the event has no subject")
	}
	return cl.list()
}

// asRefusal turns errors for which an access token would be verified remotely into refusals, because refused events
// are not sent again. It returns tokenserver.ErrAccountsUnavailable unchanged.
func asRefusal(err error) error {
	if !errors.Is(err, tokenserver.ErrAccountsUnavailable) && (errors.Is(err, errNoJWT) || errors.Is(err, errNoKey)) {
		return refused(err.Error())
	}
	return err
}

// list returns the events in the token, in no fixed order.
func (cl *eventClaims) list() ([]tokenserver.Event, error) {
	var events []tokenserver.Event
	for name, raw := range cl.Events {
		e := tokenserver.Event{FxAUID: cl.Subject}
		switch name {
		case deleteUser:
			e.Kind = tokenserver.AccountDeleted
		case passwordChange:
			var detail struct {
				ChangeTime int64 `json:"changeTime"`
			}
			if err := json.Unmarshal(raw, &detail); err != nil || detail.ChangeTime <= 0 {
				return nil, refused("the password change has no changeTime")
			}
			e.Kind, e.At = tokenserver.PasswordChanged, detail.ChangeTime
		}
		events = append(events, e)
	}
	return events, nil
}
