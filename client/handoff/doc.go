// Package handoff signs and verifies handoff tokens. A front end mints a token when it sends a guest with a chosen
// stay to a booking site. The site verifies the token offline. The signature proves who minted the token, but not
// that this is its first use. To accept a token only once, consume it at the server.
//
// The server chooses one of two formats for each tenant. A Signer signs a JWT (RFC 7519) with the tenant's Ed25519
// key. A Verifier needs only the public keys that the server publishes, so a site can verify tokens but not mint
// them. A Ring signs with an HMAC key shared by all tenants. A site that verifies its tokens can also sign tokens,
// for every tenant.
//
// A JWT header is {"alg":"EdDSA","kid":KEY,"typ":"handoff+jwt"}. The claims are iss, aud (tenant), sub (session), jti
// (handoff), iat, exp, and the other Claims fields, with base64url digests.
//
// A Ring token consists of four fields, joined by dots:
//
//	bh1.KEY.PAYLOAD.MAC
//
// KEY is the key ID: 1 to 32 characters from A-Z, a-z, 0-9, "_" and "-". PAYLOAD and MAC are base64url without
// padding. MAC is the HMAC-SHA256 of "bh1.KEY.PAYLOAD" under the key's secret. PAYLOAD contains the Claims fields in
// struct order, each prefixed with its length in bytes as an unsigned varint. Numbers are decimal text, times are
// Unix milliseconds, and digests are raw bytes. The payload digest comes last, and is absent from a token with a
// stay. Encodings are unique, so two different tokens never have the same claims and key.
package handoff
