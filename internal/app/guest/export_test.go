package guest

import (
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/tenants"
)

// Parts returns the tenants of the open service, and its store.
func (s *Guest) Parts() (*tenants.Service, backend.Store) {
	return s.opened.tenants, s.opened.store
}
