package sync

import "holdfast/internal/operate"

func (s *Storage) operations() []operate.Operation { return s.tokenOperations() }
