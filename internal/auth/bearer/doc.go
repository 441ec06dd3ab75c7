// Package bearer signs and verifies JSON Web Tokens (RFC 7519) that a request sends in
// its Authorization header as "Bearer TOKEN" (RFC 6750).
//
// Each key has one algorithm. The kid of a token selects the key; the alg of the token
// must match that key and has no other effect. Only the header of a token is read
// before its signature is verified. JSON is parsed strictly: names are case sensitive
// and must be unique. Claims.Raw has all claims, including those of a service.
package bearer

import "holdfast/internal/errcode"

// Errors of Parse and Verify. All are answered with 401. A returned error may add
// detail, so compare with errors.Is.
var (
	// ErrMissing means that the header has no bearer token.
	ErrMissing error = errcode.New(errcode.Denied, "bearer token required: send the header Authorization: Bearer TOKEN")
	// ErrMalformed means that the text is not a token, or that its header or claims
	// are not valid.
	ErrMalformed error = errcode.New(errcode.Denied, "malformed token")
	// ErrSignature means that no key of the Keyring signed this token.
	ErrSignature error = errcode.New(errcode.Denied, "the token is not signed by a key of this server")
	// ErrExpired means that the token has expired.
	ErrExpired error = errcode.New(errcode.Denied, "the token has expired")
	// ErrNotYet means that nbf or iat is in the future. A clock may be wrong.
	ErrNotYet error = errcode.New(errcode.Denied, "the token is not valid yet: nbf or iat is in the future")
	// ErrTooLong means that the lifetime of the token exceeds Options.MaxLifetime.
	ErrTooLong error = errcode.New(errcode.Denied, "the lifetime of the token is longer than this server accepts")
	// ErrForeign means that the token has another issuer or audience.
	ErrForeign error = errcode.New(errcode.Denied, "the issuer (iss) or the audience (aud) of the token does not match the settings of this server")
)
