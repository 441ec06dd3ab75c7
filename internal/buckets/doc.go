// Package buckets implements S3-compatible object storage on the schema of RFD 149 (Manta's buckets).
//
// Accounts own buckets, and buckets hold objects by name. An object's metadata is a row of manta_bucket_object. Small
// bodies are stored in that row, larger bodies on storage nodes ("sharks" in RFD 149). A write checks its
// preconditions and updates usage counters in one transaction, so conditions and quotas are exact. Overwritten and
// deleted rows move to manta_bucket_deleted_object, from which the garbage collector frees bodies after a grace
// period.
//
// This package holds the types, rules and store interfaces. s3api serves S3, httpapi the native API, blobs drives
// storage nodes, and sqlite and postgres store the metadata.
package buckets
