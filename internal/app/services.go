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
// The services keep their data in SQLite or in one of the given engines.
func Services(servers ...engines.Engine) []service.Service {
	on := engines.List(servers)
	storage := sync.New(on.Sync()...)
	account := tokenserver.New(storageOf(storage), on.Accounts()...)
	storage.RefuseRevoked(revokedBy(account))
	return []service.Service{
		storage.Service(),
		account.Service(),
		ext.New(on.Extensions()...).Service(),
		buckets.New(on.Buckets()...).Service(),
		guest.New(on.Guest()...).Service(),
	}
}
