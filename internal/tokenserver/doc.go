// Package tokenserver assigns accounts to Firefox Sync storage nodes.
//
// A browser sends its account's OAuth access token and encryption key ID. The service verifies the token, keeps one
// current row per account (storage user, node and keys), and returns a signed storage token. It implements Mozilla's
// TokenServer API 1.0, with the tables and rules of Mozilla's last two servers, and can replace either on the same
// database.
//
// It guarantees:
//
//   - sign-ins with old keys or an outdated account state are refused (see Decide);
//   - an account counts once against one node's capacity, whatever processes it signs in to concurrently;
//   - replaced storage users are deleted with their data after the grace period;
//   - accounts that were not admitted are recorded for the operator.
//
// Users and nodes are not cached between requests, because other processes may write the tables. Only the master
// secret is shared with the storage service.
package tokenserver
