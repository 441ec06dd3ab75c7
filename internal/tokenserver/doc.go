// Package tokenserver is the service that assigns the accounts of an accounts server to
// the storage nodes of Firefox Sync.
//
// A browser sends an OAuth access token of its account and the ID of its encryption keys.
// The service verifies the token, keeps one current row per account (storage user, node
// and keys), and returns a signed token for the storage user. The protocol is the
// TokenServer API 1.0 of Mozilla's services documentation. The tables and rules are those
// of Mozilla's last two servers, so this service can replace either on the same database.
//
// Guarantees:
//
//   - conditional: a sign-in with old keys, or with an account state older than the
//     stored one, is refused; Decide has the rules;
//   - counted: an account counts once against the capacity of one node, regardless of
//     concurrent sign-ins in any number of processes;
//   - expiring: a replaced storage user is removed with its data after the grace period,
//     on this server or on another node;
//   - recorded: accounts that were not admitted are listed, so that an operator can allow
//     them.
//
// Users and nodes are not cached between requests, because other processes may write the
// tables. This service and the storage service share only the master secret.
package tokenserver
