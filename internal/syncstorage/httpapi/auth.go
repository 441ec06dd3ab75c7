package httpapi

import (
	"errors"
	"net/http"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
)

// Address is where a request arrived as its client sees it, which is what the
// client has signed: behind a proxy that is not what this process sees.
type Address struct {
	Host   string // lower case
	Port   uint16
	Target string // path and query as the client sent them, with the public prefix
	Path   string // raw path without query and prefix
}

// authenticate verifies who sent a request and replaces its body by one that
// fails when it is not the signed one. Every failure is fault.Denied: the
// client then fetches a new token.
func (h *Handler) authenticate(r *http.Request, rt route, at Address, now time.Time) (ss.Owner, error) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return ss.Owner{}, fault.New(fault.Denied, "the request has not one Authorization header")
	}
	creds, err := hawk.ParseHeader(values[0])
	if err != nil {
		return ss.Owner{}, err
	}
	claims, key, err := h.Keyring.Open(creds.ID, now)
	// A client whose token has run out may still ask whether anything is new;
	// it learns the server's time that way.
	if err != nil && !(errors.Is(err, tokenlib.ErrExpired) && rt.resource == infoCollections) {
		return ss.Owner{}, err
	}
	signed := hawk.Request{Method: r.Method, Target: at.Target, Host: at.Host, Port: at.Port}
	if err := creds.Verify(key, signed, now, h.TimeSkew); err != nil {
		return ss.Owner{}, err
	}
	if claims.UID != rt.uid {
		return ss.Owner{}, fault.New(fault.Denied, "the token is for another user")
	}
	r.Body = creds.Body(r.Body, r.Header.Get("Content-Type"))
	return ss.Owner{UID: claims.UID, FxAUID: claims.FxAUID, FxAKID: claims.FxAKID}, nil
}
