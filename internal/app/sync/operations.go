package sync

import (
	"slices"

	"holdfast/internal/operate"
)

// operations lists them as the command's help does, with those that show and stop background jobs.
func (s *Storage) operations() []operate.Operation {
	return operate.InBackground(slices.Concat(s.tokenOperations(), s.compareOperations()))
}
