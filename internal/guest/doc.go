// Package guest is the data plane of a consumer front end: anonymous sessions with their wishlists, and
// what each part of the service builds on: IDs, mutations, events and errors. The parts
// are packages below: tenants, catalogue, telemetry, bots, handoffs and retention. Package backend
// joins their stores and their hot state.
//
// Nothing belongs to a tenant or a user: the owner of everything is a session. What must
// not be lost (wishlists, handoffs, stored answers, events) is in a database. Sessions
// and caches are hot state, which may be lost at any time: the signature of the cookie
// proves a session, and what can be restored is restored from the database.
//
// A mutation happens once for each idempotency key: its effect, its events and its
// answer are one transaction, and a repeated request gets the same answer, byte for byte.
package guest
