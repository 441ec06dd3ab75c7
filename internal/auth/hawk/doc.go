// Package hawk authenticates HTTP requests with Hawk version 1 and SHA-256, as used by Firefox Sync clients.
//
// A MAC covers a request's raw target, method, host and port. The client signs the host and port to which it
// connects. These differ behind a proxy, so the caller provides both.
//
// Nonces are not cached: a Sync client's clock may be months off, so they would have to be stored too long.
package hawk

import "holdfast/internal/errcode"

// These are the errors for credentials, all answered with 401, but distinct in the log.
var (
	ErrMalformed error = errcode.New(errcode.Denied, "malformed Hawk credentials")
	// ErrMAC means that the client signed with another key, target, host or port.
	ErrMAC     error = errcode.New(errcode.Denied, "the Hawk MAC does not match the request")
	ErrSkew    error = errcode.New(errcode.Denied, "the Hawk timestamp differs too much from the clock of this server")
	ErrPayload error = errcode.New(errcode.Denied, "the Hawk payload hash does not match the body")
)
