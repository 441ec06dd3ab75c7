package s3api

import (
	"net/http"
	"slices"
)

// Operations lists the operation names passed to Handler.Observe.
var Operations = []string{
	"ListBuckets", "CreateBucket", "HeadBucket", "DeleteBucket", "ListObjects", "ListMultipartUploads", "DeleteObjects", "PostObject",
	"GetObject", "HeadObject", "PutObject", "CopyObject", "DeleteObject", "CreateMultipartUpload", "UploadPart", "UploadPartCopy",
	"ListParts", "CompleteMultipartUpload", "AbortMultipartUpload", other,
}

// other is the operation name for settings, preflights, and requests that S3 does not know.
const other = "other"

// name returns the operation for metrics. It is called even if the request failed before routing, so it looks only at
// the request.
func (x *request) name() string {
	method := x.in.Method
	switch {
	case x.query == nil:
		return other
	case x.route.bucket == "":
		return of(method, http.MethodGet, "ListBuckets")
	case x.key == "":
		switch {
		case x.has("delete"):
			return of(method, http.MethodPost, "DeleteObjects")
		case x.has("uploads"):
			return of(method, http.MethodGet, "ListMultipartUploads")
		}
		for _, s := range ofBucket {
			if x.has(s.parameter) {
				return other
			}
		}
		return of(method, http.MethodGet, "ListObjects", http.MethodHead, "HeadBucket", http.MethodPut, "CreateBucket",
			http.MethodDelete, "DeleteBucket", http.MethodPost, "PostObject")
	}
	put, part := "PutObject", "UploadPart"
	if x.in.Header.Get("X-Amz-Copy-Source") != "" {
		put, part = "CopyObject", "UploadPartCopy"
	}
	switch {
	case x.has("uploadId"):
		return of(method, http.MethodPut, part, http.MethodGet, "ListParts", http.MethodPost, "CompleteMultipartUpload",
			http.MethodDelete, "AbortMultipartUpload")
	case x.has("uploads"):
		return of(method, http.MethodPost, "CreateMultipartUpload")
	}
	for _, s := range ofObject {
		if x.has(s.parameter) {
			return other
		}
	}
	return of(method, http.MethodGet, "GetObject", http.MethodHead, "HeadObject", http.MethodPut, put, http.MethodDelete, "DeleteObject")
}

// of returns the name that follows method in pairs, or other.
func of(method string, names ...string) string {
	for pair := range slices.Chunk(names, 2) {
		if pair[0] == method {
			return pair[1]
		}
	}
	return other
}
