package tokenserver

import (
	"slices"

	"holdfast/internal/operate"
)

// operations returns the operations of the service.
func (s *Accounts) operations() []operate.Operation {
	return slices.Concat(s.accountOperations(), s.accountTransfers(), s.accessOperations(), s.userOperations(), s.userTransfers(), s.nodeOperations())
}
