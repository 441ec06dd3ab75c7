// Package cloudbucket opens buckets at cloud providers: s3://, gs://, azblob://, and mem:// for tests.
package cloudbucket

import (
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/memblob"   // mem://
	_ "gocloud.dev/blob/s3blob"    // s3://
)

// Small is the largest buffered object: the provider gets its MD5 in the same request.
const Small = 1 << 20

const (
	// partSize is the smallest size that S3 accepts; 10,000 parts are 50 GB.
	partSize = 5 << 20
	parts    = 2
)

// Upload returns upload options. md5 is the whole object's, or nil.
func Upload(md5 []byte) *blob.WriterOptions {
	return &blob.WriterOptions{ContentType: "application/octet-stream", ContentMD5: md5, BufferSize: partSize, MaxConcurrency: parts}
}
