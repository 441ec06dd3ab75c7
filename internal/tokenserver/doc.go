// Package tokenserver assigns accounts to Firefox Sync storage nodes. It implements Mozilla's TokenServer API 1.0,
// with the tables and rules of Mozilla's last two servers, and can replace either.
//
// A browser sends its account's OAuth access token and encryption key ID. The service verifies the token, keeps one
// current row per account (storage user, node and keys), and returns a signed storage token. It guarantees:
//
//   - sign-ins with old keys or an outdated account state are refused (see Decide);
//   - an account counts only once toward a node's capacity, despite concurrent sign-ins;
//   - replaced storage users are deleted with their data after the grace period;
//   - accounts that were not admitted are recorded.
//
// Other processes may write the tables, so users and nodes are not cached.
package tokenserver
