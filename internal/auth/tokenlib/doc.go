// Package tokenlib makes and verifies the tokens that a tokenserver issues for storage nodes. Tokenserver and nodes
// share only the master secret: the token contains user and expiry, its signature proves the issuer, and the client's
// signing key (see package hawk) is derived from the token's text.
//
// The format is Mozilla's tokenlib, version 1.
package tokenlib

import "holdfast/internal/errcode"

// These are the errors of Open, all answered with 401, after which a Sync client fetches a new token.
var (
	ErrMalformed error = errcode.New(errcode.Denied, "the token is malformed")
	ErrSignature error = errcode.New(errcode.Denied, "the token is not signed with a master secret of this server")
	ErrExpired   error = errcode.New(errcode.Denied, "the token has expired")
)
