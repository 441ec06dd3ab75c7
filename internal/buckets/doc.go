// Package buckets is object storage in buckets: the metadata of RFD 149 (Manta's
// buckets) and the rules of Amazon S3.
//
// An account owns buckets, and a bucket has objects by name. The metadata of an object
// is one row of manta_bucket_object. Its body is in the row if it is small, otherwise in
// one or more segments, each of which has copies on storage nodes ("sharks" in RFD 149).
//
// Every write is
//   - conditional: preconditions are checked in the transaction of the write;
//   - counted: objects and bytes of the bucket and the account change in the same
//     transaction, and quotas are exact;
//   - expiring: an incomplete upload is aborted after a time;
//   - recorded: the row of a deleted or overwritten object moves to
//     manta_bucket_deleted_object, from which the garbage collector frees its body after
//     a grace period.
//
// The root has the types, the rules, and the interfaces of the stores. The S3 protocol
// is in s3api, the native API in httpapi, the drivers of storage nodes in blobs, and the
// databases in sqlite and postgres.
package buckets
