// Package guest is the data plane for a consumer front end: anonymous sessions and their wishlists.
//
// Wishlists, handoffs, stored answers and events are durable in a database. Sessions and caches are hot state, in
// Redis or in memory, and may be lost: the cookie's signature proves a session. An embedded database keeps the sessions
// that are in memory. A mutation happens once per idempotency key: its
// effect, events and answer share one transaction, and repeated requests get the same answer, byte for byte.
package guest
