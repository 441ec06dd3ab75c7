// Package s3api is the S3 protocol: routes, signatures, XML and errors as Amazon S3 has
// them.
package s3api
