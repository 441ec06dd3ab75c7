// Package extstorage implements extension storage, a store for the JSON records of
// extensions.
//
// A tenant has installs of extensions, an install has namespaces, and a namespace
// has records under keys. A record has a JSON value, JSON metadata, a revision,
// and optionally a time to live. The protocol is JSON over HTTP and specific to
// Holdfast; docs/extension-storage.md is its user documentation.
//
// The service guarantees, on every backend:
//
//   - conditional: a precondition (ifRevision, If-Match, If-None-Match) is judged under
//     the same lock as the write, and no precondition meets an earlier life of a key;
//   - counted: keys, bytes and namespaces of an install are kept by delta in the
//     transaction of the write, so a quota is exact at any moment;
//   - expiring: a record whose time to live is over is absent everywhere, also
//     before it has been removed, and is never the cause of a refusal;
//   - recorded: every change has a number in its install's sequence, without
//     gaps, by which it can be read for a while and is reported to the audit.
//
// The server, not the engine, converts a JSON text to its one canonical form
// (package canonjson). So the size for limits and quotas, the order of members and
// the exact decimal value of numbers are the same on every engine.
//
// This package holds the types and the rules. Validation by JSON Schema is in
// jsonschema.
package extstorage
