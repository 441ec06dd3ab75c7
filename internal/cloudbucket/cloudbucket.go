// Package cloudbucket opens buckets at cloud providers: s3://, gs://, azblob://, and mem:// for tests.
package cloudbucket

import (
	"errors"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/memblob"   // mem://
	_ "gocloud.dev/blob/s3blob"    // s3://
	"gocloud.dev/gcerrors"

	"holdfast/internal/errcode"
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

// s3Fixes has the advice for error codes of S3 (Amazon S3 API reference, "Error responses").
var s3Fixes = map[string]string{
	"AccessDenied":                 "the access key has not the rights: allow it to list, read, write and delete in the bucket",
	"AccountProblem":               "the provider has closed the account: look at its console",
	"InvalidAccessKeyId":           "the provider does not know the access key: correct AWS_ACCESS_KEY_ID, or create a key",
	"SignatureDoesNotMatch":        "the secret of the access key is wrong: correct AWS_SECRET_ACCESS_KEY",
	"ExpiredToken":                 "the temporary credentials have expired: renew them",
	"InvalidToken":                 "the temporary credentials are not valid: renew them",
	"RequestTimeTooSkewed":         "the clock of this machine differs from the provider's: set it, e.g. with timedatectl set-ntp true",
	"NoSuchBucket":                 "the bucket does not exist: create it, or correct the URL",
	"PermanentRedirect":            "the bucket is in another region: correct region in the URL",
	"AuthorizationHeaderMalformed": "the bucket is in another region: correct region in the URL",
	"QuotaExceeded":                "a quota of the provider is used up: raise it, or make space",
	"InsufficientStorage":          "the provider has no space left: make space",
	"ServiceQuotaExceeded":         "a quota of the provider is used up: raise it",
	"SlowDown":                     "the provider limits the rate of requests: wait, or raise the limit",
	"ServiceUnavailable":           "the provider is unavailable: wait, and look at its status page",
	"InternalError":                "the provider fails: wait, and look at its status page",
}

// Fix returns advice for an operator about an error of a provider, or "".
func Fix(err error) string {
	if e, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err); ok && s3Fixes[e.ErrorCode()] != "" {
		return s3Fixes[e.ErrorCode()]
	}
	if fix := errcode.NetworkFix(err); fix != "" {
		return fix
	}
	if fix := errcode.CloudFix(gcerrors.Code(err).String()); fix != "" {
		return fix
	}
	return "check the URL of the bucket, the credentials and the status page of the provider"
}
