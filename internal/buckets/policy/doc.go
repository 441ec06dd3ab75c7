// Package policy parses, validates and evaluates bucket policies: the IAM policy language as Amazon S3 applies
// it to a bucket. It refuses everything it does not know, so that no part of a policy is ignored.
package policy
