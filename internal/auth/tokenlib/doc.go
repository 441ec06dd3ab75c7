// Package tokenlib makes and verifies the tokens that a tokenserver gives to clients of
// a storage node. Tokenserver and node share the master secret and no other state: the
// token names the user and its expiry, its signature proves that a tokenserver made it,
// and the key that signs the requests of the client (see package hawk) is derived from
// the text of the token.
//
// The format is Mozilla's tokenlib, version 1. The Python and Rust tokenservers write
// the same claims with different field order, spacing and number format.
package tokenlib

import "holdfast/internal/errcode"

// Errors of Open. All are answered with 401, and then a Sync client fetches a new token.
// A returned error may add detail, so compare with errors.Is.
var (
	// ErrMalformed means that the text is not a token, or that its claims are not valid.
	ErrMalformed error = errcode.New(errcode.Denied, "malformed token")
	// ErrSignature means that the token was not made with one of the master secrets.
	ErrSignature error = errcode.New(errcode.Denied, "the token is not signed with a master secret of this server")
	// ErrExpired means that the token has expired.
	ErrExpired error = errcode.New(errcode.Denied, "the token has expired")
)
