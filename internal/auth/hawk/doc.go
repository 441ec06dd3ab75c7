// Package hawk authenticates HTTP requests by the Hawk scheme, version 1, with
// SHA-256, as Firefox Sync clients speak it. It has both sides: Header.Verify
// for the server and SignHTTP for clients of ours.
//
// A request is signed over its raw target, method, host and port by a key that
// both sides know; the key itself never travels. What the client calls host and
// port is the address it typed, which behind a proxy is not the address that
// the server sees. This package therefore takes both from the caller.
//
// There is no cache of nonces: a Sync client may have a clock that is months
// off, so the window in which a nonce would have to be kept is no bound at all.
// Replay is limited by the life of the key instead.
package hawk

import "holdfast/internal/fault"

// What can be wrong with a request's credentials. All are answered with 401;
// they differ so that an operator's log can say which it was. A returned error
// may add detail, so compare with errors.Is.
var (
	// ErrMalformed: the header, or an address to be signed, does not follow the grammar.
	ErrMalformed error = fault.New(fault.Denied, "malformed Hawk credentials")
	// ErrMAC: the MAC does not fit the request; either the key differs or the
	// target, host or port that the client signed.
	ErrMAC error = fault.New(fault.Denied, "the Hawk MAC does not match the request")
	// ErrSkew: the MAC is right, the client's clock is too far from ours.
	ErrSkew error = fault.New(fault.Denied, "the Hawk timestamp differs too much from the clock of this server")
	// ErrPayload: the body is not the one whose hash was signed.
	ErrPayload error = fault.New(fault.Denied, "the Hawk payload hash does not match the body")
)
