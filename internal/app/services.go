package app

import (
	"holdfast/internal/app/buckets"
	"holdfast/internal/app/ext"
	"holdfast/internal/app/guest"
	"holdfast/internal/app/service"
	"holdfast/internal/app/sync"
	"holdfast/internal/app/tokenserver"
)

// Services returns this release's services in the order in which they are opened and backed up. Accounts come after
// their storage, so a backup has the account of every storage user with records. Otherwise a restored server could
// reassign such a user's UID.
func Services() []service.Service {
	storage := sync.New()
	account := tokenserver.New(storageOf(storage))
	storage.RefuseRevoked(revokedBy(account))
	return []service.Service{
		storage.Service(),
		account.Service(),
		ext.New().Service(),
		buckets.New().Service(),
		guest.New().Service(),
	}
}
