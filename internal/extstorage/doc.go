// Package extstorage is the service in which extensions keep JSON records.
//
// A tenant has installs of extensions, an install has namespaces, and a
// namespace has records under keys: a JSON value, JSON metadata, a revision,
// and a time to live when it was given one. The protocol is JSON over HTTP and
// our own; docs/extension-storage.md is what its users read.
//
// The service promises, on every backend:
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
// A JSON text has one canonical form (package canonjson), made by the server and
// not by an engine: the size that limits and quotas apply to, the order of
// members and the exact decimal value of numbers are the same everywhere.
//
// This package holds the types and the rules. What checks values by JSON Schema
// is in jsonschema.
package extstorage
