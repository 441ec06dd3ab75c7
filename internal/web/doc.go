// Package web is the HTTP layer of all services. It knows no service and no protocol:
// the form of an error on the wire is up to the ErrorWriter of the service.
//
// A service implements a Handler that returns its errors. A Mux adds what is the same
// for all services: a request ID, one log line and one observation per request, panics
// as errors of the service, pace limits on bodies, and a Gate that rejects requests
// under overload.
//
// # Addresses
//
// Paths are never cleaned, decoded or redirected: IDs and object keys may contain
// "..", "//" and "%2F", and clients sign the request target byte for byte. ServeMux
// does all three, so it is not used. Resolver determines the public URL of a request
// and the path within it; Segments splits such a path.
//
// # Shutdown
//
// NewServer limits what a connection may send before a handler runs, and Serve shuts a
// server down without losing requests: not ready, a delay in which load balancers
// notice, then a grace period.
package web
