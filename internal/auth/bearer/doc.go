// Package bearer signs and verifies JSON Web Tokens (RFC 7519) sent as "Authorization: Bearer TOKEN" (RFC 6750).
//
// A token's kid selects the key, and its alg must match the key's. Only the header is read before the signature is
// verified.
package bearer

import "holdfast/internal/errcode"

// These are the errors of Parse and Verify, all answered with 401.
var (
	ErrMissing   error = errcode.New(errcode.Denied, "bearer token required: send the header Authorization: Bearer TOKEN")
	ErrMalformed error = errcode.New(errcode.Denied, "the token is malformed")
	ErrSignature error = errcode.New(errcode.Denied, "the token is not signed by a key of this server")
	ErrExpired   error = errcode.New(errcode.Denied, "the token has expired")
	ErrNotYet    error = errcode.New(errcode.Denied, "the token is not valid yet: nbf or iat is in the future")
	ErrTooLong   error = errcode.New(errcode.Denied, "the lifetime of the token is longer than this server accepts")
	ErrForeign   error = errcode.New(errcode.Denied, "the token's issuer (iss) or audience (aud) does not match this server's settings")
)
