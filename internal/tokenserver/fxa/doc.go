// Package fxa verifies tokens from an accounts server (Firefox Accounts).
//
// JWT access tokens are verified locally with configured or cached keys, so that sign-ins do not depend on the
// accounts server. The accounts server verifies only other tokens, and tokens with an unknown key. If it is then
// unavailable, the error is tokenserver.ErrAccountsUnavailable, not a refusal.
package fxa
