// Package syncstorage implements the Firefox Sync 1.5 storage service.
//
// Browsers store bookmarks, passwords, history and tabs as encrypted records (Basic Storage Objects, BSOs) in named
// collections. The protocol is Mozilla's SyncStorage API 1.5. Where the text of the protocol and its clients differ,
// the service follows the clients.
//
// Every backend guarantees:
//
//   - X-If-Modified-Since and X-If-Unmodified-Since are checked under the write lock. An empty or malformed value is 400,
//     and so is another condition, such as If-Match, on a write;
//   - the write transaction updates record and byte counters, so quotas are exact;
//   - expired records are invisible even before the sweep;
//   - every stamp is greater than the user's earlier stamps, even if the clock is set back.
package syncstorage
