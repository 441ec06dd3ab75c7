package tokenserver

import (
	"errors"
	"slices"

	"holdfast/internal/operate"
	"holdfast/internal/tokenserver"
)

func (s *Accounts) operations() []operate.Operation {
	return slices.Concat(s.accountOperations(), s.accountTransfers(), s.accessOperations(), s.userOperations(), s.userTransfers(), s.nodeOperations())
}

var errDisabled = errors.New("accounts are disabled: set tokenserver.enabled = true")

func (s *Accounts) ready() (*tokenserver.Service, error) {
	if s.opened == nil {
		return nil, errDisabled
	}
	return s.opened, nil
}
