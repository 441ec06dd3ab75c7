// Package web is the HTTP layer for all services. It knows no service and no protocol: a service's ErrorWriter
// decides how errors look.
//
// A service implements a Handler that returns errors.
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
