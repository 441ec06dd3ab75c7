// Package tokenserver is the service that sends the accounts of an accounts
// server to the storage nodes of Firefox Sync.
//
// A browser comes with an OAuth access token of its account and the id of its
// encryption keys. The service has the token verified, keeps one current row per
// account (which storage user it is, on which node, under which keys), and
// answers with a signed token for that storage user. The protocol is the
// TokenServer API 1.0 of Mozilla's services documentation; the tables and
// rules are those of its last two servers, so that either can be replaced by
// this service on the same database.
//
// What the service promises:
//
//   - conditional: a sign-in under old keys, or with a state of the account
//     that is older than what was seen, is refused; the rules are Decide;
//   - counted: an account takes one place on one node, however many browsers
//     sign in at once, in however many processes;
//   - expiring: a replaced storage user is removed with its data after the
//     grace, on this server or on another node;
//   - recorded: who was refused for want of permission is listed, so that an
//     operator can allow them.
//
// Nothing of users and nodes is kept between requests: other processes may
// write these tables. The storage service needs nothing of this one but the
// master secret.
package tokenserver
