package guest

import "holdfast/internal/guest"

// Parts returns the tenants of the open service, and its store.
func (s *Guest) Parts() (*guest.TenantService, guest.WholeStore) {
	return s.opened.tenants, s.opened.store
}
