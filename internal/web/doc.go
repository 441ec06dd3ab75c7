// Package web is the HTTP ground that every service stands on. It knows no service
// and no protocol: what an error looks like on the wire is the service's own
// ErrorWriter.
//
// A service serves with a Handler that returns its errors. A Mux puts
// around it what must be the same everywhere: a request id, one line of log and
// one observation per request, a panic that becomes the service's own error, pace
// limits on bodies, and a Gate that turns requests away when there are too many.
//
// # Addresses
//
// Paths are never cleaned, decoded or redirected: ids and object keys may hold
// "..", "//" and "%2F", and clients sign the request target byte for byte. Go's
// ServeMux does all three, so nothing here uses it. Resolver says under which
// public address a request arrived and which path inside of it is meant;
// Segments splits such a path.
//
// # Ends
//
// NewServer bounds what a connection may send before a handler sees it, and
// Serve ends a server so that no request is lost: not ready, a delay in which
// load balancers notice, then a time of grace.
package web
