package guest

import "holdfast/internal/guest"

// Parts returns the open service and its store.
func (s *Guest) Parts() (*guest.Service, guest.Store) { return s.service, s.opened }
