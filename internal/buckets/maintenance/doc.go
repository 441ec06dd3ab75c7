// Package maintenance compares the bodies on storage nodes with the database, repairs
// them, and empties nodes, while servers run. Both read the references of all bodies into
// files in a folder first, so that memory is bounded whatever the number of bodies, and so
// that no snapshot of the database stays open for long. One audit or drain may run at a
// time: a Service runs them under a lease. On a server it also repairs and scrubs, while
// one process has another lease.
//
// These promises make an audit safe beside other work:
//
// A PUT between body and commit has a body that no row has. The body is young, and an
// audit ignores what is younger than Options.Grace. The row of an older body is never
// written (buckets.CommitWithin), so a body that is older and that no row has stays so.
//
// A PUT that commits after the references were listed has a body that is not in the list.
// It is a candidate only if its body is old. References are therefore read again after
// the nodes were walked, and only what no row has then is a finding. Before a body is
// removed, its time is compared again: a copy that was made meanwhile is young.
//
// The garbage collector removes bodies before rows. A copy that it has removed looks
// missing, so copies of garbage are never missing or corrupt. If the object was deleted
// between list and walk, the second reading of the references shows that.
//
// A drain writes the copy, changes the row, and then removes the old copy. It does not run
// at the same time. If it was killed in between, a copy is left that the row does not
// name: the audit finds it, and removes it only if the copies that the row names are good.
//
// Restoring a copy of an object that is deleted meanwhile may leave a file behind. So may
// a drain. A later audit finds it.
//
// A backup copies the database and then the bodies that it names. While it holds the
// garbage collection, audits and drains change no row and remove no copy. The bodies that
// a drain moves at the moment when the hold begins may be in the backup on another node
// than in its database: an audit of the restored data finds them there.
//
// An audit that another process continues has an old list of references. That only makes
// more candidates: what counts is the second reading.
package maintenance
