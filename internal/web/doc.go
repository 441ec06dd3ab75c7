// Package web is the HTTP layer for all services. It knows no service and no protocol: a service's ErrorWriter
// decides how errors look.
//
// A service implements a Handler that returns errors. A Mux adds the common parts: request IDs, one log line and
// observation per request, panic handling, minimum body rates, and a Gate that rejects requests under overload.
//
// # Addresses
//
// Paths are never cleaned, decoded or redirected, as ServeMux would: IDs and object keys may contain "..", "//" and
// "%2F", and clients sign the request target byte for byte. Resolver determines a request's public URL and path;
// Segments splits a path.
//
// # Shutdown
//
// Serve shuts down without losing requests: not ready, a delay for load balancers, then a grace period.
package web
