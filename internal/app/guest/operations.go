package guest

import (
	"errors"
	"slices"

	"holdfast/internal/operate"
)

// operations lists them as the command's help and the console's navigation do.
func (s *Guest) operations() []operate.Operation {
	return slices.Concat(
		s.keyOperations(), s.tenantKeyOperations(), s.tokenOperations(), s.tenantOperations(), s.outboxOperations(), s.publishedOperations(), s.eventSchemaOperations(), s.deadLetterOperations(), s.quarantineOperations(), s.refusalOperations(),
		s.jobOperations(), s.sessionOperations(), s.userOperations(),
	)
}

// errDisabled is returned by every operation that needs the open service.
var errDisabled = errors.New("guest is disabled, or no server has started on this data yet")

// ready returns the parts that need the handoff secret. It also returns an error if the secret exists only in this
// process; see isSaved.
func (s *Guest) ready() (*handoffParts, error) {
	if s.opened == nil || s.opened.handoffs == nil {
		return nil, errDisabled
	}
	return s.opened.handoffs, s.opened.handoffs.isSaved()
}

// parts returns the opened service, or errDisabled.
func (s *Guest) parts() (*parts, error) {
	if s.opened == nil {
		return nil, errDisabled
	}
	return s.opened, nil
}
