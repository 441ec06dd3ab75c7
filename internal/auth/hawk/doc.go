// Package hawk authenticates HTTP requests with the Hawk scheme, version 1, with
// SHA-256, as Firefox Sync clients use it. Header.Verify is for the server and SignHTTP
// for clients.
//
// A MAC covers the raw target, method, host and port of a request. Its key is known to
// both sides and never sent. The client signs the host and port that it connects to,
// which behind a proxy differ from those that the server sees, so the caller provides
// both.
//
// There is no cache of nonces. The clock of a Sync client may be months off, so the
// window in which nonces would have to be stored is too long. The lifetime of the key
// limits replay instead.
package hawk

import "holdfast/internal/errcode"

// Errors of credentials. All are answered with 401; they are separate so that the log
// shows which one it was. A returned error may add detail, so compare with errors.Is.
var (
	// ErrMalformed means that the header, or an address to be signed, has a syntax error.
	ErrMalformed error = errcode.New(errcode.Denied, "malformed Hawk credentials")
	// ErrMAC means that the MAC does not match the request: the client signed with
	// another key, or another target, host or port.
	ErrMAC error = errcode.New(errcode.Denied, "the Hawk MAC does not match the request")
	// ErrSkew means that the MAC is right but the clock of the client differs too much.
	ErrSkew error = errcode.New(errcode.Denied, "the Hawk timestamp differs too much from the clock of this server")
	// ErrPayload means that the body does not match the signed hash.
	ErrPayload error = errcode.New(errcode.Denied, "the Hawk payload hash does not match the body")
)
