// Package extstorage implements extension storage, a JSON record store for extensions.
//
// Tenants own installs, installs contain namespaces, and namespaces map keys to records: a JSON value, JSON metadata,
// a revision, and an optional TTL. See docs/extension-storage.md for the HTTP protocol.
//
// Every backend guarantees:
//
//   - preconditions are checked under the write lock and never match an earlier
//     incarnation of a key;
//   - quotas are exact: keys, bytes and namespaces are counted in the write
//     transaction;
//   - expired records are invisible even before the sweep, and never cause an
//     error;
//   - changes are numbered per install without gaps, readable for a while, and
//     audited.
//
// Values are stored as canonical JSON (package canonjson), so their size, member order and decimal numbers do not
// depend on the engine.
package extstorage
