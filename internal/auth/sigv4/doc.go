// Package sigv4 verifies S3 requests signed with AWS Signature Version 4, and links and forms signed with Version 2, and
// decodes and checks their bodies.
//
// A Verifier checks the signature in the Authorization header or a presigned URL's query (Verify), or in a form
// upload's fields (VerifyForm). A Body then reads the object's bytes: it removes chunk framing, and verifies chunk
// signatures, the size and every declared digest.
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
//     STREAMING-UNSIGNED-PAYLOAD-TRAILER uses the same framing, unsigned.
//   - form.go, policy.go: "Authenticating Requests: Browser-Based Uploads Using
//     POST" and "Creating a POST Policy". Every form field needs a condition,
//     with the exceptions in that chapter.
//   - version2.go: "Signing and authenticating REST requests (AWS signature version
//     2)", only its query string alternative, and "Browser-based uploads using POST
//     (AWS signature version 2)".
//   - package checksum: "Checking object integrity in Amazon S3".
//   - errors.go: "Error responses".
//
// Where Amazon's documents are silent, the rules accept what real clients send. A comment names the client;
// docs/decisions/0023-signature-version-4.md and 0068-signature-version-2.md list the rules.
//
// Session tokens, Signature Version 2 in the Authorization header and Signature Version 4A are refused.
package sigv4
