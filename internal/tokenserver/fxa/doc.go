// Package fxa verifies tokens from an accounts server (Firefox Accounts).
//
// JWT access tokens are verified locally with configured or cached keys, so that sign-ins neither wait for the
// accounts server nor fail without it. The accounts server verifies other tokens, and those with an unknown key. If
// it is needed but unavailable, the error is tokenserver.ErrAccountsUnavailable rather than a refusal.
package fxa
