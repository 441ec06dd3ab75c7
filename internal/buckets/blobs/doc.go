// Package blobs stores the bodies of objects on storage nodes.
//
// A Driver is one node: a folder (package filedriver), or a bucket of a cloud provider
// (package clouddriver). A Cluster is all of them: it chooses nodes for the copies of a
// body, writes the copies in parallel from one stream, and reads from any of them.
//
// The package promises:
//   - a body is durable on all its nodes when Put returns, and nothing of it is visible
//     after an error;
//   - no byte of a body is returned before its chunk was verified; each chunk has a checksum on
//     the nodes (see frame.go);
//   - one node that is slow, full, read-only, unreachable or returns wrong bytes does
//     not fail a request if another node can serve it, also in the middle of a body;
//   - memory per request is bounded, whatever the size of the body.
package blobs
