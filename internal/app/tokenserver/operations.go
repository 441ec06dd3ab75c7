package tokenserver

import (
	"errors"
	"slices"

	"holdfast/internal/operate"
	"holdfast/internal/tokenserver"
)

// operations lists them as the command's help and the console's navigation do.
func (s *Accounts) operations() []operate.Operation {
	return slices.Concat(s.accountOperations(), s.accountTransfers(), s.accessOperations(), s.userOperations(), s.userTransfers(), s.nodeOperations())
}

// errDisabled is returned by every operation that needs accounts.
var errDisabled = errors.New("accounts are disabled: set tokenserver.enabled = true")

// ready returns the opened service, or errDisabled. Operations are declared even for a disabled service, so each calls
// it first.
func (s *Accounts) ready() (*tokenserver.Service, error) {
	if s.opened == nil {
		return nil, errDisabled
	}
	return s.opened, nil
}
