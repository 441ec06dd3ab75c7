package sync

import (
	"slices"

	"holdfast/internal/operate"
)

func (s *Storage) operations() []operate.Operation {
	return operate.InBackground(slices.Concat(s.tokenOperations(), s.compareOperations()))
}
