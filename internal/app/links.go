package app

import (
	"context"

	"holdfast/internal/app/accounts"
	"holdfast/internal/app/service"
	"holdfast/internal/app/sync"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/syncstorage"
	"holdfast/internal/tokenserver"
)

// storageOf is the sync storage of this server as accounts see it.
func storageOf(s *sync.Storage) accounts.Storage { return storageLink{s} }

type storageLink struct{ *sync.Storage }

// IsOpen implements accounts.Storage.
func (l storageLink) IsOpen() bool { return l.Opened() != nil }

// Engine implements accounts.Storage.
func (l storageLink) Engine() (engine.Kind, bool) { return l.Storage.Engine() }

// Purge implements accounts.Storage: it deletes what a storage user has stored.
func (l storageLink) Purge(ctx context.Context, u tokenserver.DueUser) error {
	return l.Opened().DeleteAll(ctx, owner(&u.User), syncstorage.Precondition{})
}

// Usage implements accounts.Storage.
func (l storageLink) Usage(ctx context.Context, u *tokenserver.User) (usage accounts.Usage, err error) {
	stored, err := l.Opened().Usage(ctx, owner(u), syncstorage.Precondition{}, l.Now())
	if err != nil {
		return usage, err
	}
	quota := l.Opened().Quota()
	usage.Quota, usage.CollectionQuota = quota.User, quota.Collection
	usage.Bytes, usage.ModifiedMillis = stored.Bytes(), int64(stored.Modified)
	for _, c := range stored.Collections {
		usage.Collections = append(usage.Collections, accounts.Collection{Name: c.Name, Records: c.Records, Bytes: c.Bytes})
	}
	return usage, nil
}

// revokedBy is whose tokens the accounts of this server have revoked, or those that
// another server keeps in the same database.
func revokedBy(a *accounts.Accounts) sync.Revocations { return revokedLink{a} }

type revokedLink struct{ accounts *accounts.Accounts }

// Has implements sync.Revocations.
func (l revokedLink) Has(o syncstorage.Owner) bool { return l.accounts.IsRevoked(o.FxAUID, o.UID) }

// Watch implements sync.Revocations.
func (l revokedLink) Watch(ctx context.Context, db *pgdb.DB, d *service.Deps) (stop func() error) {
	return l.accounts.WatchBeside(ctx, db, d)
}

// owner is whose records a storage user's are.
func owner(u *tokenserver.User) syncstorage.Owner {
	return syncstorage.Owner{UID: u.UID, FxAUID: u.Account().FxAUID, FxAKID: u.KeyID().String()}
}
