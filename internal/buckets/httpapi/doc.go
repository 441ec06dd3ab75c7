// Package httpapi implements the native buckets API: Manta's bucket operations over HTTP, for tools that need data
// that S3 hides, e.g. storage nodes, roles, properties and deleted objects.
//
// A request passes these steps: route and method (route.go), token (auth.go), query and headers (query.go,
// headers.go), slot, account and bucket, and the operation (bucket.go, listing.go, object.go, metadata.go,
// garbage.go). errors.go writes all errors.
//
// An object's entity tag is its ID. Conditions are evaluated in RFC 9110 order, like Manta's, and dates are compared
// in seconds.
package httpapi
