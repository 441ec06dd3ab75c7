// Package bearer signs and verifies JSON Web Tokens (RFC 7519) sent as "Authorization: Bearer TOKEN" (RFC 6750).
//
// A token's kid selects the key, and its alg must match the key's. Only the header is read before the signature is
// verified. JSON names are case-sensitive and unique.
package bearer

import "holdfast/internal/errcode"

// These are the errors of Parse and Verify, all answered with 401. They may be wrapped with detail: compare with
// errors.Is.
var (
	// ErrMissing means that the header contains no bearer token.
	ErrMissing error = errcode.New(errcode.Denied, "bearer token required: send the header Authorization: Bearer TOKEN")
	// ErrMalformed means that the token, its header or its claims are invalid.
	ErrMalformed error = errcode.New(errcode.Denied, "malformed token")
	// ErrSignature means that no key signed the token.
	ErrSignature error = errcode.New(errcode.Denied, "the token is not signed by a key of this server")
	// ErrExpired means that the token has expired.
	ErrExpired error = errcode.New(errcode.Denied, "the token has expired")
	// ErrNotYet means that nbf or iat is in the future. A clock may be wrong.
	ErrNotYet error = errcode.New(errcode.Denied, "the token is not valid yet: nbf or iat is in the future")
	// ErrTooLong means that the lifetime exceeds Options.MaxLifetime.
	ErrTooLong error = errcode.New(errcode.Denied, "the lifetime of the token is longer than this server accepts")
	// ErrForeign means that the issuer or audience does not match.
	ErrForeign error = errcode.New(errcode.Denied, "the token's issuer (iss) or audience (aud) does not match this server's settings")
)
