// Package maintenance audits bodies on storage nodes against the database, repairs them, drains nodes and supports
// backups while servers run. A lease excludes concurrent audits and drains, another lets a single server repair and
// scrub. Audits and drains first write all references to files, which bounds memory and keeps database snapshots
// short.
//
// Audits tolerate concurrent work:
//
// A PUT stores its body before its row. Audits ignore bodies younger than AuditOptions.Grace, and no row is written
// for older bodies (buckets.CommitWithin). A PUT may also commit after the references were listed. Therefore
// references are read again after the walk, and only files that still lack a row are findings. File times are
// compared again before a removal, because a copy made meanwhile is young.
//
// The garbage collector removes bodies before rows, so copies of garbage are never missing or corrupt. The second
// reading also reveals objects deleted during the walk.
//
// A drain writes the copy, changes the row, then removes the old copy. If it is killed in between, an audit removes
// the unreferenced copy once the referenced copies are good. Restoring or draining an object that is deleted
// meanwhile may leave a file for a later audit.
//
// A backup copies the database, then the bodies. Meanwhile audits and drains change nothing. A body that was moving
// when the backup began may be on another node than its row says; an audit after the restore finds it.
//
// A resumed audit uses an old list of references. That only adds candidates, because the second reading decides.
package maintenance
