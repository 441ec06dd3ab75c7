// Package sigv4 verifies requests that are signed with AWS Signature Version 4
// for S3, and decodes and checks their bodies. It knows neither buckets nor objects.
//
// A Verifier checks the signature of a request in the Authorization header
// (Verify), in the query of a presigned URL (Verify), or in the fields of a form
// upload (VerifyForm). The caller supplies secrets through a Lookup. Body then
// returns a reader of the object's bytes: it removes the framing of chunked
// uploads, verifies the signature of each chunk, and verifies the size and every
// digest that the client declared. It delivers neither io.EOF nor the last bytes
// of a declared size before all of that is verified. A caller must therefore
// discard what it has read when Read returns an error.
//
// The rules follow these chapters of the Amazon S3 API Reference and User Guide:
//
//   - header.go, key.go, canonical.go: "Authenticating Requests: Using the
//     Authorization Header" and "Signature Calculations for the Authorization
//     Header: Transferring Payload in a Single Chunk". S3 encodes the path once
//     and does not normalize it; the host and every x-amz-* header must be signed.
//   - query.go: "Authenticating Requests: Using Query Parameters". A URL is valid
//     for 1 to 604800 seconds.
//   - chunks.go: "Transferring Payload in Multiple Chunks (Chunked Upload)".
//   - trailer.go: "Signature calculations for trailing headers (chunked uploads)".
//     STREAMING-UNSIGNED-PAYLOAD-TRAILER has the same framing without signatures.
//   - form.go, policy.go: "Authenticating Requests: Browser-Based Uploads Using
//     POST" and "Creating a POST Policy". Every field of the form must have a
//     condition, except those that the chapter names.
//   - checksum.go, combine.go: "Checking object integrity in Amazon S3". A
//     multipart object has a composite checksum (the digest of the digests of its
//     parts) or a full-object checksum (CRCs of parts combined).
//   - errors.go: "Error responses". Code returns the S3 code of an error.
//
// Where Amazon's documents are silent, the rules accept what real clients send.
// Each such place has a comment that names the client;
// docs/decisions/0023-signature-version-4.md lists them.
//
// Session tokens, Signature Version 2 and Signature Version 4A are refused.
package sigv4
