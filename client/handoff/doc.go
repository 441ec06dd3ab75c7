// Package handoff signs and verifies handoff tokens. A front end mints a token when it
// sends a guest with a chosen stay to a booking site; the site verifies it without a
// request to the server. A signature proves who minted the token, not that it is the
// first use: to accept a token once, consume it at the server.
//
// A token is signed in one of two ways, which the server chooses for each tenant. A Signer signs a JWT (RFC 7519) with an Ed25519 key of
// the tenant: a Verifier needs only public keys, which the server publishes, so a site can verify its own tokens and make none.
// A Ring signs with an HMAC key that all tenants share: a site that verifies can also sign, for every tenant.
//
// The header of a JWT is {"alg":"EdDSA","kid":KEY,"typ":"handoff+jwt"}. Its claims are iss, aud (tenant), sub (session), jti
// (handoff), iat, exp, and the other fields of Claims, with digests in base64url.
//
// A token of a Ring is four fields, joined by dots:
//
//	bh1.KEY.PAYLOAD.MAC
//
// KEY is the ID of the key, 1 to 32 characters of A-Z, a-z, 0-9, "_" and "-". PAYLOAD and
// MAC are base64url without padding. MAC is HMAC-SHA256 of the text "bh1.KEY.PAYLOAD"
// with the secret of the key. PAYLOAD is the fields of Claims in the order of the struct.
// Each begins with the length of its value in bytes, as an unsigned varint. Numbers are
// decimal text, times are milliseconds since 1970, and digests are raw bytes. The digest of the payload is the last field,
// and a token with a stay does not have it.
// A value has one encoding only, so two different tokens never have the same claims and key.
package handoff
