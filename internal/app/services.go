package app

import (
	"holdfast/internal/app/buckets"
	"holdfast/internal/app/ext"
	"holdfast/internal/app/guest"
	"holdfast/internal/app/service"
	"holdfast/internal/app/sync"
	"holdfast/internal/app/tokenserver"
	"holdfast/internal/engines"
)

// Services returns this release's services in opening and backup order. Accounts follow their storage, so that a
// backup contains the account of every storage user with records; otherwise a restored server could reassign the UID.
// The services use SQLite, folders, and the given engines.
func Services(all ...engines.Engine) []service.Service {
	on := engines.List(all)
	storage := sync.New(on.Sync()...)
	account := tokenserver.New(storageOf(storage), on.Accounts()...)
	storage.RefuseRevoked(revokedBy(account))
	extensions, objects, guests := ext.New(on.Extensions()...), buckets.New(on.Buckets()...), guest.New(on.Guest()...)
	extensions.UseBrokers(on.Brokers())
	objects.UseBrokers(on.Brokers())
	objects.UseClouds(on.Nodes())
	guests.UseBrokers(on.Brokers())
	return []service.Service{storage.Service(), account.Service(), extensions.Service(), objects.Service(), guests.Service()}
}
