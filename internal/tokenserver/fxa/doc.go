// Package fxa asks an accounts server (Firefox Accounts) what its tokens are
// worth.
//
// An access token is a JWT that is verified here, with keys that are configured
// or fetched and kept, so that the accounts server is neither slow nor missing
// at every sign-in. What cannot be judged here, because it is no JWT or because
// there is no key, the accounts server judges itself.
//
// That the accounts server cannot be reached is never the browser's fault:
// every such failure is tokenserver.ErrAccountsAway.
package fxa
