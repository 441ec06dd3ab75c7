// Package s3api implements the S3 protocol for package buckets. Details follow Amazon S3, because SDKs depend on
// them. Unsupported features are rejected rather than ignored.
package s3api
