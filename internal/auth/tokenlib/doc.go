// Package tokenlib makes and opens the tokens with which a tokenserver sends a
// client to a storage node. Both sides know the master secret and keep nothing
// else in common: the token says whose storage it opens and until when, its
// signature says that a tokenserver made it, and the key that the client signs
// its requests with (see package hawk) is derived from the token's own text.
//
// The format is that of Mozilla's tokenlib, version 1, whose Python and Rust
// makers write the same claims in different order, spacing and number form.
package tokenlib

import "holdfast/internal/fault"

// Why a token does not open. All are answered with 401, upon which a Sync client
// fetches a new token. A returned error may add detail, so compare with errors.Is.
var (
	// ErrMalformed: the text is no token, or its claims are not the ones of Sync.
	ErrMalformed error = fault.New(fault.Denied, "malformed token")
	// ErrSignature: none of our master secrets made this token.
	ErrSignature error = fault.New(fault.Denied, "the token is not signed with a master secret of this server")
	// ErrExpired: the token was good once.
	ErrExpired error = fault.New(fault.Denied, "the token has expired")
)
