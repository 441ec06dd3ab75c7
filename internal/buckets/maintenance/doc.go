// Package maintenance compares bodies on storage nodes with the database, repairs them, and empties nodes, while
// servers run. Audits and drains first write all references to files, so that memory is bounded and no database
// snapshot stays open for long. A lease limits them to one at a time. Under another lease, one server repairs and
// scrubs.
//
// Audits are safe beside other work:
//
// A PUT between body and commit leaves a body without a row. Audits ignore bodies younger than Options.Grace, and no
// row is written for older bodies (buckets.CommitWithin).
//
// A PUT may commit after the references were listed. So references are read again after the nodes were walked, and
// only files that still lack a row are findings. Before a removal, the file's time is compared again: a copy made
// meanwhile is young.
//
// The garbage collector removes bodies before rows, so copies of garbage are never missing or corrupt. The second
// reading also shows objects deleted between list and walk.
//
// A drain writes the copy, changes the row, then removes the old copy, and never runs at the same time. If it is
// killed in between, the audit removes the unreferenced copy, but only if the referenced copies are good.
//
// Restoring or draining an object that is deleted meanwhile may leave a file behind. A later audit finds it.
//
// A backup copies the database, then the bodies that it names. While it holds garbage collection, audits and drains
// change no row and remove no copy. Bodies being moved when the hold begins may be on another node in the backup than
// in its database: an audit of the restored data finds them.
//
// An audit resumed by another process has an old list of references. That only adds candidates: the second reading
// decides.
package maintenance
