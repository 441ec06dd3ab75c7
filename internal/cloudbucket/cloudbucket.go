// Package cloudbucket knows the cloud providers whose buckets the server uses: s3://, gs://, azblob://, and mem:// for tests. It
// wraps gocloud.dev/blob, whose documentation lists the parameters of each URL, such as prefix.
package cloudbucket

import (
	"slices"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/memblob"   // mem://
	_ "gocloud.dev/blob/s3blob"    // s3://
)

// Small is the size up to which an object is buffered: the provider then gets its MD5 in the same request.
const Small = 1 << 20

const (
	// partSize and parts limit the memory of an upload. S3 accepts no smaller parts, and
	// 10,000 of them are 50 GB.
	partSize = 5 << 20
	parts    = 2
)

// IsScheme reports whether a URL with this scheme names a bucket.
func IsScheme(scheme string) bool {
	return slices.Contains([]string{"s3", "gs", "azblob", "mem"}, scheme)
}

// Upload returns the options of an upload. md5 is that of the whole object, or nil.
func Upload(md5 []byte) *blob.WriterOptions {
	return &blob.WriterOptions{ContentType: "application/octet-stream", ContentMD5: md5, BufferSize: partSize, MaxConcurrency: parts}
}
