// Package replica continuously copies SQLite files to a folder or bucket, for restores to any published moment.
//
// It reads committed transactions from each write-ahead log (WAL) and writes their pages to LTX files, about one a
// second. They wait in a local folder, the spool, so a slow or unavailable target never delays a write. When
// everything up to a moment is in the target, the replica publishes a restore point.
//
// A replica only continues reading the WAL if salts and checksums prove that nothing was overwritten. Otherwise it
// compares all pages with the checksums of the pages it has sent.
//
// Services may have immutable files besides their databases, the bodies. Each is uploaded once, before any point
// whose rows refer to it, and deleted when no point needs it.
//
// Every LTX file contains the checksum of the whole resulting database, so a restore proves that its result is right.
package replica
