// Package syncstorage implements the Firefox Sync 1.5 storage service.
//
// A user's browsers store bookmarks, passwords, history and tabs as encrypted
// records (Basic Storage Objects, BSOs) in named collections. The protocol is the
// SyncStorage API 1.5 of Mozilla's services documentation. Where its text and its
// clients differ, the service does what the clients rely on.
//
// The service guarantees, on every backend:
//
//   - conditional: X-If-Modified-Since and X-If-Unmodified-Since are judged
//     under the same lock as the write they guard;
//   - counted: the records and bytes of every collection are kept by delta in
//     the transaction of the write, so a quota is exact at any moment;
//   - expiring: a record whose time to live is over is absent everywhere, also
//     before the sweep has removed it;
//   - recorded: every write carries a stamp that is greater than every stamp
//     of its user before, also when the machine's clock steps back.
//
// This package holds the types, the rules and the Store interface. The backends
// are in the packages sqlite, postgres and spanner, HTTP is in httpapi, and the
// test suite in storetest defines the contract of a backend.
package syncstorage
