// Package scheme knows the URL schemes of buckets without linking the providers' libraries.
package scheme

// IsBucket reports whether a URL scheme names a bucket at a cloud provider, or in memory for tests.
func IsBucket(scheme string) bool {
	switch scheme {
	case "s3", "gs", "azblob", "mem":
		return true
	}
	return false
}
