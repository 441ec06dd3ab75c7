// Package web is the HTTP layer for all services. It knows no service and no protocol: a service's ErrorWriter
// decides how errors look.
//
// Paths are never cleaned, decoded or redirected, as ServeMux would: IDs and object keys may contain "..", "//" and
// "%2F", and clients sign the request target byte for byte. Resolver determines a request's public URL and path;
// Segments splits a path.
package web
