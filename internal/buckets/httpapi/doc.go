// Package httpapi implements the native API of buckets: the operations of Manta's
// buckets over HTTP, for tools that need what S3 hides, such as the storage nodes of an
// object, its roles and properties, and deleted objects.
//
// A request passes these steps: route and method from the raw path (route.go), the token
// (auth.go), query and headers (query.go, headers.go), the slot, the account and the
// bucket, and the operation (bucket.go, listing.go, object.go, metadata.go, garbage.go).
// One function writes all errors (errors.go).
//
// An entity tag is the ID of an object. Conditions are evaluated in the order of RFC 9110,
// which is that of Manta, and dates are compared in seconds.
//
// openapi.json, which the server serves, describes requests and responses.
package httpapi
