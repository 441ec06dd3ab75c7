package guest

import (
	"errors"
	"slices"

	"holdfast/internal/operate"
)

func (s *Guest) operations() []operate.Operation {
	return slices.Concat(
		s.keyOperations(), s.tenantKeyOperations(), s.tokenOperations(), s.tenantOperations(), s.outboxOperations(), s.publishedOperations(), s.eventSchemaOperations(), s.deadLetterOperations(), s.quarantineOperations(), s.refusalOperations(),
		s.jobOperations(), s.sessionOperations(), s.userOperations(),
	)
}

var errDisabled = errors.New("guest is disabled, or no server has started on this data yet")

func (s *Guest) ready() (*handoffParts, error) {
	if s.opened == nil || s.opened.handoffs == nil {
		return nil, errDisabled
	}
	return s.opened.handoffs, s.opened.handoffs.isSaved()
}

func (s *Guest) parts() (*parts, error) {
	if s.opened == nil {
		return nil, errDisabled
	}
	return s.opened, nil
}
