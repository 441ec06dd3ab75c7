// Package fxa verifies the tokens of an accounts server (Firefox Accounts).
//
// An access token is a JWT. It is verified locally with keys that are configured or
// fetched and cached, so that sign-ins neither wait for the accounts server nor fail while
// it is unavailable. Tokens that are not a JWT or have no known key are verified by the
// accounts server.
//
// If the accounts server is needed and unavailable, the error is
// tokenserver.ErrAccountsUnavailable, not a refusal.
package fxa
