// Package syncstorage implements the Firefox Sync 1.5 storage service.
//
// A user's browsers store bookmarks, passwords, history and tabs as encrypted
// records (Basic Storage Objects, BSOs) in named collections. The protocol is the
// SyncStorage API 1.5 of Mozilla's services documentation. Where its text and its
// clients differ, the service does what the clients rely on.
//
// The service guarantees, on every backend:
//
//   - conditional: X-If-Modified-Since and X-If-Unmodified-Since are checked under
//     the same lock as the write;
//   - counted: the transaction of a write updates the counters of records and
//     bytes, so quotas are always exact;
//   - expiring: an expired record is absent in every response, even before the
//     sweep has removed it;
//   - recorded: every write gets a stamp that is greater than all earlier stamps
//     of the user, even if the machine's clock is set back.
//
// This package holds the types, the rules and the Store interface. The backends are
// in the packages sqlite, postgres and spanner, HTTP is in httpapi, and the test
// suite in storetest defines the contract of a backend.
package syncstorage
