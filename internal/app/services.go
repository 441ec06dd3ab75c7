package app

import (
	"holdfast/internal/app/accounts"
	"holdfast/internal/app/ext"
	"holdfast/internal/app/service"
	"holdfast/internal/app/sync"
)

// Services are those of this release. They are opened in this order and backed
// up in it: the accounts come after what they store, so every storage user that
// has records in a backup is among the accounts of the backup, and its number is
// given to nobody else.
func Services() []service.Service {
	storage := sync.New()
	account := accounts.New(storageOf(storage))
	storage.RefuseRevoked(revokedBy(account))
	return []service.Service{
		storage.Service(),
		account.Service(),
		ext.New().Service(),
	}
}
