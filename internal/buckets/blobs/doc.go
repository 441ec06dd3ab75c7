// Package blobs stores the bodies of objects on storage nodes.
//
// A Driver is one node: a folder (package filedriver), or a bucket of a cloud provider
// (package clouddriver). A Cluster is all of them: it chooses nodes for the copies of a
// body, writes the copies in parallel from one stream, and reads from any of them.
//
// The package promises:
//   - a body is durable on all its nodes when Put returns, and nothing of it is visible
//     after an error;
//   - a body that is read whole is checked against its CRC32C, or without one against its
//     MD5, before its last bytes are returned;
//   - one node that is slow, full, read-only, unreachable or returns wrong bytes does
//     not fail a request if another node can serve it;
//   - memory per request is bounded, whatever the size of the body.
package blobs
