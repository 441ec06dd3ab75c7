// Package replica copies SQLite files continuously to a folder or a bucket, from which
// they can be restored as of any published moment.
//
// It reads committed transactions from the write-ahead log (WAL) of each file and writes
// the pages that they changed into files of the LTX format, about one a second. These wait
// in a local folder, the spool, until they are in the target: a target that is slow or
// away never delays a write. When everything up to a moment is in the target, the replica
// publishes a restore point.
//
// A replica never assumes that it has seen every change. It goes on reading the WAL only if salts
// and checksums prove that nothing was overwritten. Otherwise it compares all pages of the
// file with the checksums of the pages it has sent.
//
// Services may have immutable files besides their databases, the bodies. Each is uploaded once, before any point whose rows
// refer to it, and deleted when no point needs it.
//
// Every LTX file has the checksum of the whole database after it, so a restore proves
// that it has written the database that was there.
package replica
