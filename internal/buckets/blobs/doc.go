// Package blobs stores object bodies on storage nodes.
//
// A Driver is one node: a folder (package filedriver) or a cloud bucket (package clouddriver). A Cluster chooses
// nodes for the copies of a body, writes them in parallel from one stream, and reads from any copy.
//
// Guarantees:
//   - a body is durable on all its nodes when Write returns, and invisible after an error;
//   - each chunk is verified before a byte is returned (see frame.go);
//   - a slow, full, read-only, unreachable or corrupt node does not fail a request that another node can serve, even in the middle of a body;
//   - memory per request is bounded.
package blobs
