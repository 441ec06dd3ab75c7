// Package imports copies buckets from another S3 endpoint while clients use both.
//
// An import keeps no state of its own: it compares sorted listings of both sides. Properties.Imported is the source's
// modification time, so a later pass recognizes objects unchanged at the source and objects changed here; Decide has
// the rules. A body is read in one stream that resumes after failures. It is checked against the source's entity tag
// or checksum before the object becomes visible.
package imports
