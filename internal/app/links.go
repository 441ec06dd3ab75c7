package app

import (
	"context"
	"io"
	"net/http"

	"holdfast/internal/app/buckets"
	"holdfast/internal/app/service"
	"holdfast/internal/app/sync"
	accounts "holdfast/internal/app/tokenserver"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/rows"
	"holdfast/internal/optional"
	"holdfast/internal/syncstorage"
	"holdfast/internal/tokenserver"
)

// storageOf gives the accounts access to the same server's storage.
func storageOf(s *sync.Storage) accounts.Storage { return storageLink{s} }

// storageLink implements accounts.Storage. Its methods, except IsOpen and Engine, need an open storage.
type storageLink struct{ *sync.Storage }

func (l storageLink) IsOpen() bool { return l.Opened() != nil }

func (l storageLink) Engine() (engine.Kind, bool) { return l.Storage.Engine() }

// Purge deletes a user's own quota and records. It is safe to retry.
func (l storageLink) Purge(ctx context.Context, u tokenserver.DueUser) error {
	o := owner(&u.User)
	if err := l.Opened().SetQuota(ctx, o, optional.Of[int64]{}); err != nil { // DeleteAll keeps the quota
		return err
	}
	return l.Opened().DeleteAll(ctx, o, syncstorage.Precondition{})
}

// Usage returns the user's usage. The quota is the user's own, or else the server's.
func (l storageLink) Usage(ctx context.Context, u *tokenserver.User) (usage accounts.Usage, err error) {
	stored, err := l.Opened().Usage(ctx, owner(u), syncstorage.Precondition{}, l.Now())
	if err != nil {
		return usage, err
	}
	quota := l.Opened().Quota()
	usage.OwnQuota = stored.Quota.Set
	if usage.OwnQuota { // even if quotas are off
		quota.User = stored.Quota.Value
	}
	usage.Quota, usage.CollectionQuota = quota.User, quota.Collection
	usage.Bytes, usage.ModifiedMillis = stored.Bytes(), int64(stored.Modified)
	for _, c := range stored.Collections {
		usage.Collections = append(usage.Collections, accounts.Collection{Name: c.Name, Records: c.Records, Bytes: c.Bytes})
	}
	return usage, nil
}

// Totals returns the totals as in users.
func (l storageLink) Totals(ctx context.Context, users []tokenserver.User) ([]accounts.Total, error) {
	owners := make([]syncstorage.Owner, len(users))
	for i := range users {
		owners[i] = owner(&users[i])
	}
	stored, err := l.Opened().Totals(ctx, owners)
	if err != nil {
		return nil, err
	}
	totals := make([]accounts.Total, len(stored))
	for i, t := range stored {
		totals[i] = accounts.Total{Bytes: t.Bytes, Records: t.Records, Counted: t.Counted, ModifiedMillis: int64(t.Modified), Quota: t.Quota}
	}
	return totals, nil
}

// SetQuota sets the user's own quota in bytes; unset removes it.
func (l storageLink) SetQuota(ctx context.Context, u *tokenserver.User, bytes optional.Of[int64]) error {
	return l.Opened().SetQuota(ctx, owner(u), bytes)
}

// Export writes the user's records to a file and returns their number. label is a name for people.
func (l storageLink) Export(ctx context.Context, u *tokenserver.User, label string, to io.Writer, progress func(int64)) (int64, error) {
	h := syncstorage.ExportHeader{Account: u.Account().FxAUID, Label: label, At: l.Now(), Generation: max(u.Generation, 0)}
	if u.KeyID() != (tokenserver.KeyID{}) { // otherwise only the UID is known
		h.Keys = u.KeyID().String()
	}
	return l.Opened().WriteExport(ctx, owner(u), h, to, progress)
}

// Import reads a file from Export. target chooses the user for the file's header, before any record is written.
func (l storageLink) Import(
	ctx context.Context, from io.Reader, o accounts.ImportOptions, target func(accounts.ExportedUser) (*tokenserver.User, error),
) (accounts.Imported, error) {
	im, err := l.Opened().NewImport(from, l.Clock())
	if err != nil {
		return accounts.Imported{}, err
	}
	u, err := target(accounts.ExportedUser{Account: im.Header.Account, Keys: im.Header.Keys, Generation: im.Header.Generation, Label: im.Header.Label})
	if err != nil {
		return accounts.Imported{}, err
	}
	done, err := im.Run(ctx, owner(u), syncstorage.ImportOptions{Preserve: o.Preserve, Merge: o.Merge})
	return accounts.Imported{
		Collections: done.Collections, Records: done.Records, Written: done.Written, Expired: done.Expired, Newer: done.Newer,
		Total: im.Header.Records,
	}, err
}

// Quotas reports whether own quotas are stored, and whether they are enforced.
func (l storageLink) Quotas() (counted, enforced bool) {
	q := l.Opened().Quota()
	return q.Own, q.Enforce
}

// revokedBy reports users revoked by this server's accounts, or by another server with the same database.
func revokedBy(a *accounts.Accounts) sync.Revocations { return revokedLink{a} }

// revokedLink implements sync.Revocations.
type revokedLink struct{ accounts *accounts.Accounts }

func (l revokedLink) Has(o syncstorage.Owner) bool { return l.accounts.IsRevoked(o.FxAUID, o.UID) }

// Watch follows revocations by other servers on the storage's database, until stop is called.
func (l revokedLink) Watch(ctx context.Context, db *engine.Database, d *service.Deps) (stop func() error) {
	return l.accounts.WatchBeside(ctx, db, d)
}

// ownersOf returns the service whose database contains a service's owner names, and a function that reads them. Copies
// to and from engines with text owners (engine.Traits) need them.
func ownersOf(name string) (in string, owners func(rows.Database) rows.Owners) {
	if name == sync.Name {
		return accounts.Name, accounts.Owners
	}
	return "", nil
}

// OpensAlone reports whether a service's commands need no other service's database.
func OpensAlone(name string) bool { return name != sync.Name && name != accounts.Name }

// answerStray answers a request for buckets on the main listener, and reports whether it was one.
func answerStray(w http.ResponseWriter, r *http.Request) bool { return buckets.AnswerStray(w, r) }

// owner returns who owns a user's records in sync storage.
func owner(u *tokenserver.User) syncstorage.Owner {
	return syncstorage.Owner{UID: u.UID, FxAUID: u.Account().FxAUID, FxAKID: u.KeyID().String()}
}
