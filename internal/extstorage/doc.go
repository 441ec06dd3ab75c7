// Package extstorage implements extension storage, a JSON record store for extensions.
//
// Tenants own installs, installs contain namespaces, and namespaces map keys to records: a JSON value, JSON metadata,
// a revision, and an optional TTL. See docs/extension-storage.md for the HTTP protocol.
//
// Every backend guarantees:
//
//   - preconditions are checked under the write lock, and never match an earlier
//     incarnation of a key;
//   - keys, bytes and namespaces are counted in the write transaction, so quotas
//     are exact;
//   - expired records are invisible even before they are swept, and never cause an
//     error;
//   - every change gets a number in its install's gapless sequence, stays readable
//     for a while, and is audited.
//
// The server converts JSON to canonical form (package canonjson) before storing it, so sizes, member order and exact
// decimal numbers do not depend on the engine. Package jsonschema validates values.
package extstorage
