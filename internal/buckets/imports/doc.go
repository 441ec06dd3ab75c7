// Package imports copies buckets from another S3 endpoint while clients use both.
//
// An import stores no state of its own, but compares sorted listings of both sides. Properties.Imported is the
// source's modification time. A later pass uses it to recognize changes on either side; Decide contains the rules. A
// body is read as a stream that resumes after failures, and becomes visible once it matches the source's entity tag
// or checksum.
package imports
