// Package policy parses, validates and evaluates bucket policies: the IAM policy language as S3 applies it to
// buckets. Anything unknown is rejected, so that no part of a policy is ignored.
package policy
