// Package httpapi implements the native buckets API: Manta's bucket operations over HTTP, for tools that need data
// that S3 hides, e.g. storage nodes, roles, properties and deleted objects.
//
// An object's entity tag is its ID. Conditions are evaluated in RFC 9110 order, like Manta's, and dates are compared
// in seconds.
package httpapi
