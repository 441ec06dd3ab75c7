// Package bearer makes and verifies JSON Web Tokens (RFC 7519) that stand in the
// Authorization header of a request as "Bearer TOKEN" (RFC 6750).
//
// A key carries its algorithm, and only that one: what a token says of its
// algorithm must agree with the key that it names, and decides nothing. Nothing
// of a token is read before its signature is found good, but for the header,
// which names the key. JSON is read strictly, with names as they are spelled,
// each once; what a service says in claims of its own it finds in Claims.Raw.
package bearer

import "holdfast/internal/fault"

// Why a token is not accepted. All are answered with 401. A returned error may
// add detail, so compare with errors.Is.
var (
	// ErrMissing: there is no bearer token in the header.
	ErrMissing error = fault.New(fault.Denied, "a bearer token is required")
	// ErrMalformed: the text is no token, or its header or claims are not what
	// they must be.
	ErrMalformed error = fault.New(fault.Denied, "malformed token")
	// ErrSignature: none of our keys has signed this token.
	ErrSignature error = fault.New(fault.Denied, "token is not signed with a key of this server")
	// ErrExpired: the token was good once.
	ErrExpired error = fault.New(fault.Denied, "token has expired")
	// ErrNotYet: the token is of a time to come, or one of the clocks is wrong.
	ErrNotYet error = fault.New(fault.Denied, "token is not valid yet")
	// ErrTooLong: the token would be good for longer than a token may.
	ErrTooLong error = fault.New(fault.Denied, "token is good for longer than this server accepts")
	// ErrForeign: the token is from or for somebody else.
	ErrForeign error = fault.New(fault.Denied, "token is of another issuer or for another audience")
)
