// Package imports copies buckets from another S3 endpoint into the store, while clients use both.
//
// An import keeps no state of its own. It compares the sorted lists of both sides: an object has
// Properties.Imported, the time at which the source last modified it, so a later pass recognizes what is
// unchanged at the source, and what a client has changed here. Decide has the rule. A body is read in one
// stream that continues after failures, and is compared with the entity tag or the checksum of the source
// before the object becomes visible.
package imports
