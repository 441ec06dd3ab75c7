package app

import (
	"holdfast/internal/app/buckets"
	"holdfast/internal/app/ext"
	"holdfast/internal/app/guest"
	"holdfast/internal/app/service"
	"holdfast/internal/app/sync"
	"holdfast/internal/app/tokenserver"
)

// Services returns the services of this release, in the order in which they are opened
// and backed up. The accounts come after their storage, so a backup has the account of
// every storage user with records in the backup. Otherwise a restored server could
// assign the UID of such a user to another account.
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
