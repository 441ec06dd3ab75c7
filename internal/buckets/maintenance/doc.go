// Package maintenance audits bodies on storage nodes against the database, repairs them, drains nodes and supports
// backups while servers run. One lease excludes concurrent audits and drains; another ensures that only one server
// repairs and scrubs. Audits and drains first write all references to files. This limits memory and keeps database
// snapshots short.
//
// Audits tolerate concurrent work:
//
// A PUT stores its body before its row. Audits ignore bodies younger than AuditOptions.Grace, and no row is written
// for older bodies (buckets.CommitWithin). A PUT may also commit after the references were listed. Therefore an audit
// reads the references again after the walk, and only files that still have no row are findings.
//
// The garbage collector removes bodies before rows, so an audit never reports copies of garbage as missing or
// corrupt.
//
// A drain writes the copy, changes the row, and then removes the old copy. If it is killed in between, an audit
// removes the unreferenced copy once the referenced copies are good. If an object is deleted while it is restored or
// drained, a file may remain for a later audit.
//
// A backup copies the database and then the bodies. Audits and drains change nothing until it ends. A body that was
// moving when the backup began may be on another node than its row says; an audit after the restore finds it.
//
// A resumed audit uses an old list of references. That only adds candidates, because the second reading decides.
package maintenance
