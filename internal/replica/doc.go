// Package replica continuously copies SQLite files to a folder or bucket, for restores to any published moment.
//
// It reads committed transactions from each write-ahead log (WAL) and writes their pages to LTX files, about one a
// second. These wait in a local folder, the spool, so a slow target never delays a write. When the target contains
// everything up to a moment, the replica publishes a restore point. It continues reading the WAL only if salts and
// checksums prove that nothing was overwritten; otherwise it compares all pages with the checksums of the pages sent.
// Every LTX file contains the whole database's checksum, so a restore proves its result.
//
// Services may have other immutable files, the bodies. Each body is uploaded once, before any point whose rows refer
// to it, and deleted when no point needs it.
package replica
