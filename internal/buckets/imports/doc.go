// Package imports copies buckets from another S3 endpoint while clients use both.
//
// An import keeps no state of its own: it compares sorted listings of both sides. Properties.Imported is the source's
// modification time, by which a later pass recognizes changes on either side; Decide has the rules. A body is read as
// a stream that resumes after failures. It becomes visible once it matches the source's entity tag or checksum.
package imports
