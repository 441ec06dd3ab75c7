package guest

import (
	"holdfast/internal/guest/tenants"
	"holdfast/internal/outbox"
)

func (s *Guest) Parts() (*tenants.Service, outbox.Retaining) {
	return s.opened.tenants, s.opened.outbox
}
