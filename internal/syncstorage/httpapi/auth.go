package httpapi

import (
	"errors"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

// authenticate verifies who sent a request, which sets x.owner, and replaces its
// body by one that fails when it is not the signed one. Every failure is fault.Denied: the
// client then fetches a new token.
func (h *Handler) authenticate(x *exchange, at web.Address, now time.Time) error {
	values := x.in.Header.Values("Authorization")
	if len(values) != 1 {
		return fault.New(fault.Denied, "exactly one Authorization header is required")
	}
	creds, err := hawk.ParseHeader(values[0])
	if err != nil {
		return err
	}
	claims, key, err := h.Keyring.Open(creds.ID, now)
	// A client whose token has run out may still ask whether anything is new;
	// it learns the server's time that way.
	if err != nil && !(errors.Is(err, tokenlib.ErrExpired) && x.route.resource == infoCollections) {
		return err
	}
	signed := hawk.Request{Method: x.in.Method, Target: at.Target, Host: at.Host, Port: at.Port}
	if err := creds.Verify(key, signed, now, h.TimeSkew); err != nil {
		return err
	}
	// 401, though another token of the same client will not help: it is the
	// only answer upon which a client looks for its right node and user.
	if claims.UID != x.route.uid {
		return fault.New(fault.Denied, "the token is for another user")
	}
	x.owner = ss.Owner{UID: claims.UID, FxAUID: claims.FxAUID, FxAKID: claims.FxAKID}
	x.purge = claims.Origin == tokenlib.CleanupOrigin
	if err := h.checkRevoked(x); err != nil {
		return err
	}
	x.in.Body = creds.Body(x.in.Body, x.in.Header.Get("Content-Type"))
	return nil
}

// ErrRevoked is the answer to tokens that were revoked before they expired. The client
// then asks the tokenserver, which tells it why.
var ErrRevoked error = fault.New(fault.Denied, "the token is revoked because its account was denied or deleted")

// checkRevoked returns ErrRevoked.
func (h *Handler) checkRevoked(x *exchange) error {
	if h.Revoked != nil && !x.purge && h.Revoked(x.owner) {
		return ErrRevoked
	}
	return nil
}
