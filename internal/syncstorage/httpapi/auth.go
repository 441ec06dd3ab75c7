package httpapi

import (
	"errors"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

// authenticate verifies the token and the signature. Reading the body fails if it differs from the signed body. Every
// error is errcode.Denied, so that clients fetch a new token.
func (h *Handler) authenticate(x *exchange, at web.Address, now time.Time) error {
	values := x.in.Header.Values("Authorization")
	if len(values) != 1 {
		return errcode.New(errcode.Denied, "exactly one Authorization header is required")
	}
	creds, err := hawk.ParseHeader(values[0])
	if err != nil {
		return err
	}
	claims, key, err := h.Keyring.Open(creds.ID, now)
	// With an expired token, clients may still check for changes to learn the server's time.
	if err != nil && !(errors.Is(err, tokenlib.ErrExpired) && x.route.resource == infoCollections) {
		return err
	}
	signed := hawk.Request{Method: x.in.Method, Target: at.Target, Host: at.Host, Port: at.Port}
	if err := creds.Verify(key, signed, now, h.TimeSkew); err != nil {
		return err
	}
	// Only 401 makes a client look up its node and user again.
	if claims.UID != x.route.uid {
		return errcode.New(errcode.Denied, "the token is for another user")
	}
	x.owner = ss.Owner{UID: claims.UID, FxAUID: claims.FxAUID, FxAKID: claims.FxAKID}
	x.purge = claims.Origin == tokenlib.CleanupOrigin
	if err := h.checkRevoked(x); err != nil {
		return err
	}
	x.in.Body = creds.Body(x.in.Body, x.in.Header.Get("Content-Type"))
	return nil
}

// ErrRevoked means that an unexpired token was revoked.
var ErrRevoked error = errcode.New(errcode.Denied, "the token is revoked because its account was denied or deleted")

// checkRevoked lets a purge pass: the token server, not the user, sends it.
func (h *Handler) checkRevoked(x *exchange) error {
	if h.Revoked != nil && !x.purge && h.Revoked(x.owner) {
		return ErrRevoked
	}
	return nil
}
