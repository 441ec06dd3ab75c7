package app

import (
	"holdfast/internal/app/buckets"
	"holdfast/internal/app/ext"
	"holdfast/internal/app/guest"
	"holdfast/internal/app/service"
	"holdfast/internal/app/sync"
	"holdfast/internal/app/tokenserver"
)

// Services returns this release's services in opening and backup order. Accounts follow their storage, so that a
// backup contains the account of every storage user with records; otherwise a restored server could reassign the UID.
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
