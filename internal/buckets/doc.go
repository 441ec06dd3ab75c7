// Package buckets is object storage with the metadata of RFD 149 (Manta's buckets) and the rules of Amazon S3.
// Accounts own buckets, which hold objects by name. Object metadata is one row of manta_bucket_object. A small body
// is stored in the row; other bodies are segments with copies on storage nodes ("sharks" in RFD 149).
//
// Writes are
//   - conditional: the write's transaction checks preconditions;
//   - counted: the same transaction updates object and byte counters, so quotas are exact;
//   - expiring: incomplete uploads are aborted after a time;
//   - recorded: deleted and overwritten rows move to manta_bucket_deleted_object, from which the garbage collector frees bodies after a grace period.
//
// This package holds the types, the rules and the store interfaces. s3api serves S3, httpapi the native API; blobs
// drives storage nodes; sqlite and postgres are the databases.
package buckets
